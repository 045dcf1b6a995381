"""Crash points: named places where a test ends the process, to prove that the next run of the tool finishes the work.

In production no hook is armed and `reach` does nothing. Rotation names its points in `rotation.points`; a move reaches
`STEP?` when a step is done and the journal does not say so yet, and `STEP` once it does.
"""

import contextlib
from collections.abc import Callable, Iterator

_hooks: list[Callable[[str], None]] = []


def reach(point: str) -> None:
    """Pass a point: calls every armed hook with its name, and raises what a hook raises."""
    for hook in _hooks:
        hook(point)


@contextlib.contextmanager
def armed(hook: Callable[[str], None]) -> Iterator[None]:
    """Call `hook` at every point that this process reaches within the block."""
    _hooks.append(hook)
    try:
        yield
    finally:
        _hooks.remove(hook)
