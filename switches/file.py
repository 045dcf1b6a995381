"""The file of all switches that are on, beside the topology file, and read by the same processes."""

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec

from errors import Refused, Unavailable
from runtime.files import replace_private
from switches.switch import Switch

NAME = "switches.json"
MAX_FILE_BYTES = 1_000_000


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    switches: list[Switch]


_VERSION = 1


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
    return _parse(data, path)


def _parse(data: bytes, where: object) -> list[Switch]:
    try:
        content = msgspec.json.decode(data, type=_Content)
    except msgspec.MsgspecError as error:
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


def adopt(path: Path, data: bytes) -> bool:
    """Put switches that were published elsewhere into the file; says whether it had others. Durable on return.

    Raises Refused `switches_unreadable`; the file stays as it is then.
    """
    new = _parse(data, f"what is published for {path}")
    with _locked(path):
        if path.exists() and path.read_bytes() == data:
            return False
        _write(path, new)
        return True


def as_text(switches: Sequence[Switch]) -> str:
    """Return what the file holds for these switches."""
    return json.dumps(msgspec.to_builtins(_Content(_VERSION, list(switches))), indent=1) + "\n"


def parse(text: str) -> list[Switch]:
    """Return the switches in `text`; raises Refused `switches_unreadable`."""
    return _parse(text.encode(), "what is published")


def _change(path: Path, how: Callable[[list[Switch]], Sequence[Switch]], now: datetime) -> list[Switch]:
    with _locked(path):
        left = list(how([one for one in load(path) if one.until > now]))
        _write(path, left)
        return left


def _write(path: Path, switches: Sequence[Switch]) -> None:
    owner = path.parent.stat()
    replace_private(path, as_text(switches).encode())
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
