"""What was removed: a file of lines in the data folder, each durable before what it names goes."""

import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from errors import Refused
from retention.held import Held
from runtime.files import sync_folder

PREFIX = "retention-"


def note(folder: Path, held: Held, who: str) -> None:
    """Append a line to the journal of this year. Raises Refused `journal_unwritable`: then nothing may be removed."""
    now = datetime.now(UTC)
    path = folder / f"{PREFIX}{now:%Y}.jsonl"
    line = {"at": now.isoformat(), "who": who, **held.as_json()}
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600), "ab") as file:  # noqa: PTH123 - with a mode
            file.write(msgspec.json.encode(line) + b"\n")
            file.flush()
            if os.geteuid() == 0:
                # Whoever owns the folder must still read it without root.
                owner = folder.stat()
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            os.fsync(file.fileno())
        sync_folder(folder)
    except OSError as error:
        text = f"{path} cannot be written ({error.strerror}), and what goes must be on record: nothing was removed"
        raise Refused("journal_unwritable", text) from error
