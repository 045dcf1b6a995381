"""Whether each server's log is received as it is written: without it only base copies can be restored."""

import asyncio
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from backup.bucket.shelf import Shelf
from backup.folder import BackupFolder, LogState
from backup.logkeeper import LogKeeper, LogStatus, status_at_server, status_of
from backup.programs import Source
from doctor.finding import Finding, Level
from doctor.place import Place
from errors import Unavailable
from installation.access import Access
from objectstore.address import is_address
from objectstore.bucket import bucket_of

_ANEW = "./run backup log {} --anew --folder FOLDER, then ./run backup take {} --folder FOLDER"
_SAID = {
    LogState.AWAY: (Level.SOON, "Nobody receives the log of {}; it is kept there for a while, and then lost.",
                    "Start ./run backup log {} --folder FOLDER again."),
    LogState.BEHIND: (Level.SOON, "The log of {} is received too slowly.",
                      "Look at the disk and the network of ./run backup log {}."),
    LogState.LOST: (Level.WRONG, "A piece of the log of {} is lost: no restore reaches beyond it.", _ANEW),
}  # fmt: skip


async def backup_log(place: Place) -> list[Finding]:
    """Ask each server who receives its log; with --backups, compare it with what is there, in a folder or a bucket."""
    if place.access is None:
        return []
    names = place.access.servers()
    states = await asyncio.gather(*(_state(place.access, one, place.backups) for one in names))
    return list(judge({name: one for name, one in zip(names, states, strict=True) if one is not None}))


async def _state(access: Access, name: str, backups: str) -> LogState | None:
    """Return how its log stands; None if the server does not answer (`parts` says it)."""
    try:
        return (await _status(access, name, backups)).state
    except Unavailable:
        return None


async def _status(access: Access, name: str, backups: str) -> LogStatus:
    dsn = access.superuser_dsn(name)
    if not backups:
        return await status_at_server(dsn)
    source = partial(Source, name, dsn, access.passwords(name))
    if is_address(backups):
        newest = await asyncio.to_thread(Shelf(bucket_of(backups), name).newest)
        return await status_of(dsn, newest)
    return await LogKeeper(source, BackupFolder(Path(backups).absolute(), name), lambda _: None).status()


def judge(states: Mapping[str, LogState]) -> Iterator[Finding]:
    """Say how the logs of servers stand."""
    none = [name for name, state in states.items() if state is LogState.NONE]
    if none:
        what = f"No log of {', '.join(none)} is received: what is written after a base copy cannot be restored."
        do = "For data that counts: ./run backup log all --folder FOLDER (docs/operations/backup.md)."
        yield Finding("backup_log", Level.NOTE, ", ".join(none), what, do)
    for name, state in states.items():
        if state in _SAID:
            level, what, do = _SAID[state]
            yield Finding("backup_log", level, name, what.format(name), do.format(name, name))
    if kept := [name for name, state in states.items() if state is LogState.KEPT]:
        yield Finding("backup_log", Level.OK, ", ".join(kept), f"the log of {', '.join(kept)} is received")
