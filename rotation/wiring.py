"""Builds a rotation for each SET of an installation: its DSNs by role, its archive, its clock."""

from collections.abc import Callable, Sequence

from archive.adapter import ArchiveAdapter
from errors import Refused
from installation.access import Access
from rotation.set_access import SetAccess
from rotation.steps import Rotation
from schema import roles

Progress = Callable[[str, str, int, int], None]
"""Receives the SET, what is being done, how much of it so far, and of how much (0: unknown)."""


def rotations(access: Access, only: Sequence[str] = (), progress: Progress = lambda *_: None) -> list[Rotation]:
    """Return a rotation for each SET, or for those named in `only`. Raises Refused `unknown_set`."""
    topology = access.topology()
    known = [one.name for one in topology.sets]
    for name in only:
        if name not in known:
            raise Refused("unknown_set", f"there is no SET {name!r}; there are {', '.join(known)}")
    return [_rotation(access, name, progress) for name in known if not only or name in only]


def _rotation(access: Access, name: str, progress: Progress) -> Rotation:
    set_access = SetAccess(
        name,
        access.set_dsn(name, roles.OWNER),
        access.set_dsn("wallet", roles.AUDIT),
        lambda day: access.topology().databases_of(name, day),
    )
    return Rotation(set_access, access.clock, ArchiveAdapter(access.archive()), lambda *done: progress(name, *done))
