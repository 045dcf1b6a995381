"""What says that a base copy in a bucket is whole: the object that is put after the copy's own."""

from datetime import UTC, datetime
from typing import Final

import msgspec

from backup.folder import NAME_FORMAT
from errors import Refused

FORMAT: Final = 1


class Copy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A base copy. `wal`: the segments in it; `size` and `sha256` are of its tar, in bytes and hex."""

    format: int = FORMAT
    name: str
    system_identifier: str
    first_segment: str
    wal: list[str]
    size: int
    sha256: str

    @property
    def taken_at(self) -> datetime:
        """Return the instant by which it had ended."""
        return datetime.strptime(self.name, NAME_FORMAT).replace(tzinfo=UTC)

    @property
    def tar(self) -> str:
        """Return the name of its object, by its content: two copies of one second are two objects."""
        return f"base/{self.name}-{self.sha256[:16]}.tar"

    @property
    def json(self) -> str:
        """Return the name of the object that is this manifest."""
        return f"base/{self.name}.json"

    def encode(self) -> bytes:
        """Return the object's content."""
        return msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=1) + b"\n"


def decode(content: bytes, where: str, name: str) -> Copy:
    """Return the copy that the object `where` describes; raises Refused `backup_unreadable`."""
    try:
        found = msgspec.json.decode(content, type=Copy)
        _ = found.taken_at
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Refused(
            "backup_unreadable",
            f"{where} is no manifest of a base copy that this release knows: {error}; move it aside",
        ) from error
    if found.format != FORMAT or found.name != name:
        raise Refused(
            "backup_unreadable", f"{where} is the manifest of another copy, or of a later release: move it aside"
        )
    return found
