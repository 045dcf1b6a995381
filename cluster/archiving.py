"""The seam between `rotation` and `archive`: a day of one database written, and read back, in this stack's archive."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from archive.export import export_database
from archive.manifest import Manifest
from archive.place import Archive
from archive.verify import verify_database


@dataclass(frozen=True)
class Archiving:
    """What `rotation.archive_seam` asks for."""

    archive: Archive

    async def export(self, connection: Any, *, xx: int, day: date, proof: Mapping[str, Any] | None) -> Manifest:
        """Write the archive; durable when it returns."""
        return await export_database(connection, *self.archive, xx=xx, day=day, proof=proof)

    async def verify(self, connection: Any, *, xx: int, day: date) -> Manifest:
        """Read it back and compare it with the tables, both ways."""
        return (await verify_database(connection, *self.archive, xx=xx, day=day)).manifest
