"""The journal of actions: a file of lines in the data folder, 0600, each durable before its action is answered.

A full file is kept beside it under the time of its last line, and a new one begins with the newest actions.
"""

import os
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from errors import Unavailable
from ops.limits import JOURNAL_BYTES, JOURNAL_KEPT
from runtime.unreadable import UNREADABLE

NAME = "ops-actions.jsonl"


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """An action and what became of it. `id`: as its sender chose it. `changed`: whether anything is different now."""

    id: str
    at: str
    who: str
    do: str
    target: str
    reason: str
    changed: bool
    followed: bool
    detail: str


class Journal:
    """What was done, the newest last; `find` is how an action that arrives again is known."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._done: list[Done] = _load(path)
        self._by_id = {one.id: one for one in self._done}

    def find(self, action_id: str) -> Done | None:
        """Return the action of this ID, if it was done."""
        return self._by_id.get(action_id)

    def latest(self, most: int) -> list[Done]:
        """Return the newest ones, newest first."""
        return self._done[: -most - 1 : -1]

    def add(self, one: Done) -> Done:
        """Append, and return what is kept: durable, or with a `detail` that says why it is not.

        What was done is done: an action whose line cannot be written is known by its ID until this process ends, and
        stands in its log.
        """
        try:
            self._append(msgspec.json.encode(one) + b"\n")
        except OSError as error:
            lost = f"this is not in the journal: {self._path.name} cannot be written ({error.strerror})"
            one = msgspec.structs.replace(one, detail=f"{one.detail}; {lost}" if one.detail else lost)
        self._done.append(one)
        self._by_id[one.id] = one
        return one

    def _append(self, line: bytes) -> None:
        if self._path.exists() and self._path.stat().st_size > JOURNAL_BYTES:
            self._done = self._done[-JOURNAL_KEPT:]
            self._by_id = {one.id: one for one in self._done}
            new = self._path.with_name(f"{NAME}.new")
            new.unlink(missing_ok=True)
            _write(new, b"".join(msgspec.json.encode(one) + b"\n" for one in self._done))
            # The full file has both names until it loses this one: a crash between the two loses nothing.
            os.link(self._path, _free_name(self._path))
            new.replace(self._path)
        _write(self._path, line if _ends_whole(self._path) else b"\n" + line)


def _free_name(path: Path) -> Path:
    """Return a name for a full file: the time of its last line and a number."""
    stamp = datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y-%m-%dT%H%M%SZ")
    names = (path.with_name(f"{path.stem}-{stamp}-{number}{path.suffix}") for number in count(1))
    return next(one for one in names if not one.exists())


def _ends_whole(path: Path) -> bool:
    """Say whether the last line was written to its end: a crash may have cut it short."""
    try:
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    except OSError:  # there is none yet, or it is empty
        return True


def _write(path: Path, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:  # noqa: PTH123 - with a mode
        file.write(data)
        file.flush()
        if os.geteuid() == 0:
            # Whoever owns the folder must still read it without root.
            folder = path.parent.stat()
            os.fchown(file.fileno(), folder.st_uid, folder.st_gid)
        os.fsync(file.fileno())


def _load(path: Path) -> list[Done]:
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Unavailable("journal_unreadable", f"cannot read {path}: {error.strerror}") from error
    found: list[Any] = []
    for line in lines[-JOURNAL_KEPT:]:
        try:
            found.append(msgspec.json.decode(line, type=Done))
        except UNREADABLE:
            continue  # cut short by a crash, so it was never answered
    return found
