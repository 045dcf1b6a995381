"""What runs now, as a file in the data folder: how other commands find a running stack.

It holds passwords (in DSNs), so only its owner can read it. It is removed at the end; after a kill it stays, and
`load` notices by the process that is gone.
"""

from pathlib import Path

import msgspec

from cluster.machine.keys import write_private
from envelope.errors import Refused


class PartRecord(msgspec.Struct, frozen=True):
    """One running process."""

    name: str
    pid: int
    log: str


class Record(msgspec.Struct, frozen=True):
    """A running stack. `postgres` gives for each database server a DSN by role, without the superuser's.

    `archive_key` is the fingerprint of the key under which its servers read the archive ("": it does not say).
    """

    pid: int
    gateway_urls: list[str]
    wallet_url: str
    memcached: str
    topology: str
    parts: list[PartRecord]
    postgres: dict[str, dict[str, str]]
    archive: str
    archive_key: str = ""

    @property
    def gateway_url(self) -> str:
        """The first gateway."""
        return self.gateway_urls[0]

    def save(self, path: Path) -> None:
        """Replace the file in one step."""
        write_private(path, msgspec.to_builtins(self))


def load(path: Path) -> Record:
    """Read the record of a running stack; raises Refused `not_up` when none runs on this data folder."""
    try:
        record = msgspec.json.decode(path.read_bytes(), type=Record)
    except FileNotFoundError:
        raise Refused("not_up", f"nothing runs on {path.parent}; start it with ./run") from None
    except (OSError, msgspec.MsgspecError) as error:
        raise Refused("record_unreadable", f"cannot read {path}: {error}") from error
    if not Path(f"/proc/{record.pid}").exists():
        raise Refused("not_up", f"what ran on {path.parent} was killed; start it again with ./run")
    return record
