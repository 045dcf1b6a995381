"""Files that only their owner may read, replaced in one step."""

import json
import os
from pathlib import Path
from typing import Any


def write_private(path: Path, content: dict[str, Any]) -> None:
    """Replace `path` by `content` as JSON in one step, 0600; durable when this returns."""
    replace_private(path, json.dumps(content, indent=1).encode() + b"\n")


def replace_private(path: Path, content: bytes) -> None:
    """Replace `path` by `content` in one step, 0600; durable when this returns."""
    aside = path.with_name(f"{path.name}.new")
    aside.unlink(missing_ok=True)
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123 - with a mode
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make durable which files a folder has, and under which names."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
