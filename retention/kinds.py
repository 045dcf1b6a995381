"""All kinds of an installation, and the two things that are done with them."""

import dataclasses
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import asyncpg

from archive.place import Root, archived, folder_of
from backup.folder import BackupFolder
from errors import HongbaoError, Refused
from installation.access import PROOFS, Access
from installation.data_folder import DataFolder
from local import running
from objectstore.address import is_address
from objectstore.bucket import Bucket, bucket_of
from retention import journal
from retention.copies import Copies
from retention.files import OldFiles
from retention.for_ever import ForEver
from retention.held import Held, Kind
from retention.in_bucket import ArchiveInBucket, CopiesInBucket
from retention.letters import DeadLetters
from retention.rules import RetentionSettings


class NotNamed:
    """Backups of which the installation file says nothing: something else makes them, or nobody does."""

    name = "backups"
    rule = "none are named: `backups` in the installation file, or --folder"

    async def look(self) -> Held:
        """Say that nothing is known."""
        return Held(self.name, "", self.rule)

    async def remove(self, held: Held) -> Held:
        """Remove nothing: nothing is past its rule."""
        return held


class Unknown:
    """A kind whose place cannot be told from its name: looking at it says so."""

    rule = "unknown"

    def __init__(self, name: str, refused: Refused) -> None:
        self.name = name
        self._refused = refused

    async def look(self) -> Held:
        """Raise the reason."""
        raise self._refused

    async def remove(self, held: Held) -> Held:
        """Remove nothing."""
        return held


def kinds(access: Access, rules: RetentionSettings, data: Path, backups: str = "") -> Iterator[Kind]:
    """Yield each kind. `data` is the data folder; `backups` where they are, if not where the installation says."""
    yield from _backups(access, backups, rules.retention_backups)
    yield _archive(access.archive().folder)
    yield ForEver("proofs of days", data, "as long as the days", lambda: [data / PROOFS])
    yield OldFiles("journals", data, lambda: _journals(data), rules.retention_actions_days)
    logs = data / "logs"
    yield OldFiles("logs of parts that are gone", logs, lambda: _left_logs(data), rules.retention_log_days)
    yield from (DeadLetters(access, one.name, rules.retention_dead_letter_days) for one in access.topology().sets)


def _backups(access: Access, place: str, keep: int) -> Iterator[Kind]:
    try:
        place = place or access.backups
    except Refused:
        yield NotNamed()
        return
    for server in access.servers():
        if is_address(place):
            try:
                yield CopiesInBucket(bucket_of(place), server, keep)
            except Refused as refused:
                yield Unknown(f"backups of {server}", refused)
        else:
            yield Copies(BackupFolder(Path(place).absolute(), server), server, keep)


def _archive(root: Root) -> Kind:
    rule = "for ever: of a dropped day it is the only copy, and proves its money"
    if isinstance(root, Bucket):
        return ArchiveInBucket(root, rule)
    return ForEver("archive", root, rule, lambda: (folder_of(root, xx=xx, day=day) for day, xx in archived(root)))


async def show(every: Sequence[Kind]) -> list[Held]:
    """Look at all kinds; one that cannot be looked at says why."""
    return [await _look(one) for one in every]


async def apply(every: Sequence[Kind], data: Path, who: str) -> list[Held]:
    """Remove what is past its rule, each kind after its line in the journal; returns what was removed of each."""
    done: list[Held] = []
    for one in every:
        held = await _look(one)
        if held.past and not held.code:
            try:
                journal.note(data, held, who)
                held = await one.remove(held)
            except HongbaoError as error:
                held = dataclasses.replace(held, past=0, past_bytes=0, names=(), code=error.code, why=error.detail)
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                why = f"not all of it was removed: {error}; some of it may be gone"
                held = dataclasses.replace(held, past=0, past_bytes=0, names=(), code="not_removed", why=why)
        done.append(held)
    return done


async def _look(one: Kind) -> Held:
    try:
        return await one.look()
    except HongbaoError as error:
        return Held(one.name, "", one.rule, code=error.code, why=error.detail)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        return Held(one.name, "", one.rule, code="not_looked_at", why=f"it cannot be looked at: {error}")


def _journals(data: Path) -> Iterator[Path]:
    """Yield the full journals: the present one of operators, and this year's of removals, are not among them."""
    yield from data.glob("ops-actions-*.jsonl")
    now = f"{journal.PREFIX}{datetime.now(UTC):%Y}.jsonl"
    yield from (path for path in data.glob(f"{journal.PREFIX}*.jsonl") if path.name != now)


def _left_logs(data: Path) -> Iterator[Path]:
    """Yield the logs that no running part writes to."""
    try:
        names = {Path(part.log).name for part in running.load(DataFolder(data).running).parts}
    except Refused as refused:
        if refused.code != "not_up":
            raise  # which parts write is not known
        names = set()
    written = {*names, *(f"{name}.1" for name in names), "supervisor.log", "supervisor.log.1"}
    yield from (path for path in (data / "logs").glob("*.log*") if path.name not in written)
