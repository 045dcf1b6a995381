"""Where backups are: a folder, or a place in a bucket with a work folder here. What the commands ask of both."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import click

from backup.backups import Backups
from backup.bucket.remote_backups import RemoteBackups
from backup.bucket.shelf import Shelf
from backup.folder import BackupFolder
from backup.logkeeper import LogKeeper
from backup.programs import Source
from backup.retention import plan_prune
from cli.commands.backup_text import prune_json
from errors import Refused
from installation import data_folder
from installation.access import Access
from installation.finding import find
from objectstore.address import is_address
from objectstore.bucket import Bucket, bucket_of

Result = dict[str, Any]
_PLACE = click.option(
    "--folder", "place", metavar="PLACE",
    help="Where the backups are: a folder, or s3://bucket/prefix.  [default: `backups` of the installation file]",
)  # fmt: skip
_WORK = click.option(
    "--work",
    type=click.Path(path_type=Path, file_okay=False),
    help="With a bucket: a folder for what is on its way.  [default: backup-work in the data folder]",
)


class InBucket(NamedTuple):
    """A place in a bucket, and the work folder."""

    bucket: Bucket
    work: Path


Place: TypeAlias = Path | InBucket


def place_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `place`: that of --folder, else the one that the installation file names."""

    @wraps(command)
    def called(*, place: str | None, work: Path | None, data: Path | None, **more: Any) -> Any:
        text = place or find(data).backups
        where: Place = Path(text)
        if is_address(text):
            where = InBucket(bucket_of(text), work or data_folder.locate(data).path / "backup-work")
        return command(place=where, data=data, **more)

    return _PLACE(_WORK(called))


def shown(place: Place) -> str:
    """Return it as an operator writes it."""
    return str(place.bucket if isinstance(place, InBucket) else place)


def source_of(access: Access, server: str) -> Source:
    """Return the server as the backups connect to it."""
    return Source(server, access.superuser_dsn(server), access.passwords(server))


def backups_of(data: Path | None, server: str, place: Place) -> Backups | RemoteBackups:
    """Return what takes and restores the backups of a server."""
    if isinstance(place, InBucket):
        return _remote(data, server, place)
    return Backups(source_of(find(data), server), place)


@asynccontextmanager
async def local_backups(data: Path | None, server: str, place: Place, until: datetime | None) -> AsyncIterator[Backups]:
    """Give the backups of a server as a folder for the block: of a bucket, the copy for `until` and the log since."""
    backups = backups_of(data, server, place)
    if isinstance(backups, Backups):
        yield backups
        return
    async with backups.fetched(until) as fetched:
        yield fetched


def keeper_of(data: Path | None, server: str, place: Place) -> LogKeeper | RemoteBackups:
    """Return what receives a server's log and says how it stands."""
    if isinstance(place, InBucket):
        return _remote(data, server, place)
    return LogKeeper(lambda: source_of(find(data), server), BackupFolder(place.absolute(), server), _notifier(server))


async def take(data: Path | None, server: str, place: Place) -> Result:
    """Take a base copy; returns it for `--json`."""
    backups = backups_of(data, server, place)
    if isinstance(backups, RemoteBackups):
        copy = await backups.take()
        path, taken_at = f"{backups.shelf.place}/{copy.tar}", copy.taken_at
    else:
        base = await backups.take()
        path, taken_at = str(base.path), base.taken_at
    return {"server": server, "path": path, "taken_at": taken_at.isoformat()}


def copies(server: str, place: Place) -> list[Result]:
    """Return the base copies of a server for `--json`."""
    if isinstance(place, InBucket):
        shelf = Shelf(place.bucket, server)
        return [
            {
                "path": f"{shelf.place}/{one.tar}",
                "taken_at": one.taken_at.isoformat(),
                "missing": shelf.gap_after(one),
            }
            for one in shelf.copies()
        ]
    folder = BackupFolder(place.absolute(), server)
    return [
        {"path": str(base.path), "taken_at": base.taken_at.isoformat(), "missing": folder.gap_after(base)}
        for base in folder.bases()
    ]


def prune(server: str, place: Place, keep: int, *, sure: bool) -> Result:
    """Plan what goes of a server's backups, and with `sure` remove it; returns it for `--json`."""
    if isinstance(place, InBucket):
        shelf = Shelf(place.bucket, server)
        found = shelf.plan_prune(keep)
        if sure:
            shelf.prune(found)
        return {
            "server": server,
            "bases": [f"{shelf.place}/{one.tar}" for one in found.copies],
            "segments": len(found.segments),
            "bytes": found.bytes,
            "kept": found.kept,
            "removed": sure,
        }
    plan = plan_prune(BackupFolder(place.absolute(), server), keep)
    if sure:
        plan.remove()
    return prune_json(server, plan, removed=sure)


def check(place: Place) -> None:
    """Raise Refused `no_such_folder` if there is no such folder; a bucket says so when it is asked."""
    if isinstance(place, Path) and not place.is_dir():
        raise Refused("no_such_folder", f"there is no folder {place}; is its disk mounted?")


def _remote(data: Path | None, server: str, place: InBucket) -> RemoteBackups:
    return RemoteBackups(lambda: source_of(find(data), server), server, place.bucket, place.work, _notifier(server))


def _notifier(server: str) -> Callable[[str], None]:
    def notify(text: str) -> None:
        click.echo(f"{server}: {text}", err=True)

    return notify
