"""The file of all switches that are on, beside the topology file, and read by the same processes."""

import fcntl
import os
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from errors import Refused, Unavailable
from runtime.files import write_private
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
        content = msgspec.json.decode(data, type=_Content)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Refused("switches_unreadable", f"{path} cannot be read: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise Refused("switches_unreadable", f"{path}: {error}") from error
    if content.version != _VERSION:
        raise Refused("switches_unreadable", f"{path} has version {content.version}, this release reads {_VERSION}")
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


def _change(path: Path, how: Callable[[list[Switch]], Sequence[Switch]], now: datetime) -> list[Switch]:
    lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        left = list(how([one for one in load(path) if one.until > now]))
        owner = path.parent.stat()
        write_private(path, msgspec.to_builtins(_Content(_VERSION, left)))
        if os.geteuid() == 0:
            # Its processes must still read it.
            os.chown(path, owner.st_uid, owner.st_gid)
        return left
    finally:
        os.close(lock)
