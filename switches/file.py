"""The file of all switches that are on, beside the topology file, and read by the same processes.

The same text is what is published. Its first entry says of which version it is, and that its maker knows decisions
(`switches.decisions`): such texts are merged. It has the shape of a switch that has long ended, because the release
before takes no text with another field. A text without it is of that release, and replaces others if it is newer.
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from errors import Refused, Unavailable
from runtime.files import replace_private
from runtime.unreadable import UNREADABLE
from switches.decisions import closes, merge
from switches.switch import Closes, Switch

NAME = "switches.json"
MAX_FILE_BYTES = 1_000_000


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    switches: list[Switch]


_VERSION = 1
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_MARK = Switch(closes=Closes.LISTS, owner="hongbao", reason="", since=_LONG_AGO, until=_LONG_AGO)
"""The entry that says the version, as its reason."""


class Published(NamedTuple):
    """What a text says: its decisions, those that have ended included, and the version under which it was published.

    `merges`: whether its maker knew decisions; a text of a release before this one has only what was on.
    """

    version: int
    merges: bool
    decisions: list[Switch]


NOTHING = Published(0, merges=False, decisions=[])


def beside(topology: Path) -> Path:
    """Return where the switches of an installation stand."""
    return topology.with_name(NAME)


def load(path: Path) -> list[Switch]:
    """Return the switches in the file, those that have ended included; none if there is no file.

    Raises Refused `switches_unreadable`.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Refused("switches_unreadable", f"{path} cannot be read: {error.strerror}") from error
    return [one for one in _read(data, path).decisions if closes(one)]


def _read(data: bytes, where: object) -> Published:
    found = _parse(data, where)
    marks = [one for one in found if one.until == _LONG_AGO]
    number = marks[0].reason if marks else ""
    version = int(number) if number.isascii() and number.isdecimal() else 0
    return Published(version, bool(marks), [one for one in found if one.until != _LONG_AGO])


def _parse(data: bytes, where: object) -> list[Switch]:
    try:
        content = msgspec.json.decode(data, type=_Content)
    except UNREADABLE as error:
        raise Refused("switches_unreadable", f"{where}: {error}") from error
    if content.version != _VERSION:
        raise Refused("switches_unreadable", f"{where} has version {content.version}, this release reads {_VERSION}")
    return content.switches


def change(path: Path, how: Callable[[list[Switch]], Sequence[Switch]], now: datetime) -> list[Switch]:
    """Replace the switches by `how(those that are on)`; durable on return. Others who change the file wait.

    Raises Refused `switches_unreadable`, and what `how` raises; Unavailable `switches_not_written`. Nothing is changed
    then.
    """
    try:
        return _change(path, how, now)
    except OSError as error:
        raise Unavailable("switches_not_written", f"{path} cannot be written: {error.strerror}") from error


def adopt(path: Path, text: str, version: int) -> bool:
    """Merge switches that were published as a version into the file; says whether that changed it. Durable on return.

    Whatever order versions come in, the file keeps each decision until it ends, or until a later one about its name. A
    file that is damaged is replaced. Raises Refused `switches_unreadable`; the file stays as it is then.
    """
    new = parse(text, version, f"what is published for {path}")
    with _locked(path):
        old = kept(path)
        left = combine([old, new])
        if old.merges and left == old:
            return False
        _write(path, as_text(left.decisions, left.version))
        return True


def kept(path: Path) -> Published:
    """Return what the file has; NOTHING if there is none, or a damaged one."""
    try:
        return _read(path.read_bytes(), path)
    except (OSError, Refused):
        return NOTHING


def combine(found: Iterable[Published]) -> Published:
    """Return what counts of all that was found: all decisions; of releases before this one, the newest text alone."""
    every = [*found]
    newest = max(every, key=lambda one: (one.version, one.merges), default=NOTHING)
    merged = [one.decisions for one in every if one.merges] if newest.merges else [newest.decisions]
    return Published(newest.version, merges=True, decisions=merge(*merged))


def as_text(decisions: Sequence[Switch], version: int) -> str:
    """Return the text of these decisions as a version."""
    return _as_text([msgspec.structs.replace(_MARK, reason=str(version)), *decisions])


def _as_text(switches: Sequence[Switch]) -> str:
    return json.dumps(msgspec.to_builtins(_Content(_VERSION, list(switches))), indent=1) + "\n"


def parse(text: str, version: int, where: object = "what is published") -> Published:
    """Return what `text` says, which was published as `version`; raises Refused `switches_unreadable`."""
    return _read(text.encode(), where)._replace(version=version)


def _change(path: Path, how: Callable[[list[Switch]], Sequence[Switch]], now: datetime) -> list[Switch]:
    with _locked(path):
        left = list(how([one for one in load(path) if one.until > now]))
        _write(path, _as_text(left))
        return left


def _write(path: Path, text: str) -> None:
    owner = path.parent.stat()
    replace_private(path, text.encode())
    if os.geteuid() == 0:
        # Its processes must still read it.
        os.chown(path, owner.st_uid, owner.st_gid)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
