"""All kinds of an installation, and the two things that are done with them."""

import dataclasses
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from archive.place import archived, folder_of
from backup.folder import BackupFolder
from errors import HongbaoError, Refused
from installation.access import PROOFS, Access
from local import running
from objectstore.address import is_address
from retention import journal
from retention.copies import Copies
from retention.files import OldFiles
from retention.for_ever import ForEver
from retention.held import Held, Kind
from retention.letters import DeadLetters
from retention.rules import RetentionSettings


class Shown:
    """A kind that cannot be looked at: it says why."""

    def __init__(self, name: str, rule: str, error: HongbaoError) -> None:
        self.name = name
        self.rule = rule
        self._error = error

    async def look(self) -> Held:
        """Raise what is in the way."""
        raise self._error

    async def remove(self, held: Held) -> None:
        """Remove nothing."""


def kinds(access: Access, rules: RetentionSettings, data: Path, backups: Path | None = None) -> Iterator[Kind]:
    """Yield each kind. `data` is the data folder; `backups` where they are, if not where the installation says."""
    keep = rules.retention_backups
    try:
        root = _folder(backups or access.backups, "./run backup prune")
    except Refused as unknown:
        yield Shown("backups", f"the newest {keep}, and the log since", unknown)
    else:
        yield from (Copies(BackupFolder(root, one), one, keep) for one in access.servers())
    archive, rule = access.archive().folder, "for ever: of a dropped day it is the only copy, and proves its money"
    if isinstance(archive, Path):
        yield ForEver(
            "archive", archive, rule, lambda: (folder_of(archive, xx=xx, day=day) for day, xx in archived(archive))
        )
    else:
        yield Shown("archive", rule, _in_bucket(str(archive), "./run archive list"))
    yield ForEver("proofs of days", data, "as long as the days", lambda: [data / PROOFS])
    yield OldFiles("journals", data, lambda: _journals(data), rules.retention_actions_days)
    logs = data / "logs"
    yield OldFiles("logs of parts that are gone", logs, lambda: _left_logs(data), rules.retention_log_days)
    yield from (DeadLetters(access, one.name, rules.retention_dead_letter_days) for one in access.topology().sets)


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
                await one.remove(held)
            except HongbaoError as error:
                held = dataclasses.replace(held, past=0, past_bytes=0, names=(), code=error.code, why=error.detail)
        done.append(held)
    return done


async def _look(one: Kind) -> Held:
    try:
        return await one.look()
    except HongbaoError as error:
        return Held(one.name, "", one.rule, code=error.code, why=error.detail)


def _journals(data: Path) -> Iterator[Path]:
    """Yield the full journals: the present one of operators, and this year's of removals, are not among them."""
    yield from data.glob("ops-actions-*.jsonl")
    now = f"{journal.PREFIX}{datetime.now(UTC):%Y}.jsonl"
    yield from (path for path in data.glob(f"{journal.PREFIX}*.jsonl") if path.name != now)


def _left_logs(data: Path) -> Iterator[Path]:
    """Yield the logs that no running part writes to."""
    try:
        names = {Path(part.log).name for part in running.load(data / "running.json").parts}
    except Refused:
        names = set()
    written = {*names, *(f"{name}.1" for name in names), "supervisor.log", "supervisor.log.1"}
    yield from (path for path in (data / "logs").glob("*.log*") if path.name not in written)


def _folder(place: Path | str, command: str) -> Path:
    if is_address(place):
        raise _in_bucket(str(place), command)
    return Path(place).absolute()


def _in_bucket(place: str, command: str) -> Refused:
    return Refused("in_object_store", f"it is in {place}, and not on this machine's disks: {command} looks there")
