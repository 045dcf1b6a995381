"""The seam to `rotation`: the SETs of a running stack as targets, their archive, and the business date."""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime

from archive.keeper import Keeper
from cluster.access import Access
from cluster.pg import roles
from envelope.errors import Refused
from rotation.steps import Rotation
from rotation.target import RotationTarget
from runtime.clock import SystemClock
from sharding.ids import business_date

Progress = Callable[[str, str, int, int], None]
"""Hears (SET, what is being done, how much so far, of how much)."""


def rotations(access: Access, only: Sequence[str] = (), progress: Progress = lambda *_: None) -> list[Rotation]:
    """Return a rotation for each SET, or for those named. Raises Refused `unknown_set`."""
    topology = access.topology()
    known = [one.name for one in topology.sets]
    for name in only:
        if name not in known:
            raise Refused("unknown_set", f"there is no SET {name!r}; there are {', '.join(known)}")
    return [_rotation(access, name, progress) for name in known if not only or name in only]


def today_of(access: Access) -> date:
    """Return the business date now, in the topology's zone."""
    return business_date(datetime.now(UTC), access.topology().zone)


def _rotation(access: Access, name: str, progress: Progress) -> Rotation:
    target = RotationTarget(
        name,
        access.set_dsn(name, roles.OWNER),
        access.set_dsn("wallet", roles.AUDIT),
        lambda day: access.topology().databases_of(name, day),
    )
    return Rotation(target, SystemClock(), Keeper(access.archive()), lambda *told: progress(name, *told))
