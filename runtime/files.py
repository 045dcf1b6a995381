"""Files that only their owner may read, replaced in one step."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO


def write_private(path: Path, content: dict[str, Any]) -> None:
    """Replace `path` by `content` as JSON in one step, 0600; durable when this returns."""
    replace_private(path, json.dumps(content, indent=1).encode() + b"\n")


def replace_private(path: Path, content: bytes) -> None:
    """Replace `path` by `content` in one step, 0600; durable when this returns."""
    aside = path.with_name(f"{path.name}.new")
    with open(_new(aside), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    sync_folder(path.parent)


@contextmanager
def private_text(path: Path) -> Iterator[TextIO]:
    """Yield a file for text, 0600, that replaces `path` when the block ends, and is removed if it fails."""
    part = path.with_name(f".{path.name}.part")
    handle = _new(part)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            yield file
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _new(path: Path) -> int:
    """Return the descriptor of a new file, 0600; one that is there goes: it may be a link, or have another's owner."""
    path.unlink(missing_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)


def sync_folder(path: Path) -> None:
    """Make durable which files a folder has, and under which names."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
