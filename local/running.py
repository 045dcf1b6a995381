"""The file of what runs now, in the data folder: `./run status`, `stop` and `logs` read it.

The stack replaces it whenever a part has been restarted and removes it when it stops. After a kill of the stack the
file stays; `load` then finds that its process does not exist.
"""

from pathlib import Path

import msgspec

from errors import Refused
from installation.data_folder import DataFolder
from installation.sandbox import is_sandbox
from runtime.files import write_private
from runtime.unreadable import UNREADABLE


class RunningPart(msgspec.Struct, frozen=True, kw_only=True):
    """One process. `since`: its last start (ISO 8601, UTC). `restarts`: how often the supervisor started it again.

    `certified`: for which name its certificate is, where `address` is one of several at that name.
    """

    name: str
    pid: int
    address: str
    log: str
    since: str
    restarts: int = 0
    certified: str = ""


class Progress(msgspec.Struct, frozen=True):
    """Of the restart that was asked for last (`local.rolling_restart`): its number, and the parts still to come.

    `error`: why it ended before them.
    """

    number: int = 0
    left: tuple[str, ...] = ()
    error: str = ""


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """The processes of a stack. `pid` is the one that supervises the others; `since` is when its start began."""

    pid: int
    since: str
    parts: list[RunningPart]
    restart: Progress = Progress()

    def save(self, path: Path) -> None:
        """Replace the file in one step; durable when this returns."""
        write_private(path, msgspec.to_builtins(self))


def load(path: Path) -> Running:
    """Return what runs; raises Refused `not_up` if nothing does, `running_unreadable` if the file is damaged."""
    try:
        running = msgspec.json.decode(path.read_bytes(), type=Running)
    except FileNotFoundError:
        raise Refused("not_up", f"nothing runs on {path.parent}; start it with {_start(path.parent)}") from None
    except (OSError, *UNREADABLE) as error:
        raise Refused("running_unreadable", f"cannot read {path}: {error}") from error
    if not is_alive(running.pid):
        raise Refused("not_up", f"what ran on {path.parent} was killed; start it again with {_start(path.parent)}")
    return running


def _start(folder: Path) -> str:
    return "./run --sandbox" if is_sandbox(DataFolder(folder)) else "./run"


def is_alive(pid: int) -> bool:
    """Say whether a process with this ID exists and has not ended (a zombie has)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
