"""Crash points: named places where a test ends the process, to prove that the next run of the tool finishes the work.

In production no hook is armed and `reach` does nothing. Rotation names its points in `rotation.points`. A move has two
points for each step of its journal: `STEP?` just before the journal notes the step as done, `STEP` just after.
"""

import contextlib
from collections.abc import Callable, Iterator

_hooks: list[Callable[[str], None]] = []


def reach(point: str) -> None:
    """Call every armed hook with the point's name; raises what a hook raises."""
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
