"""The archive as the rotation asks for it: one folder, one key, and the two steps that a day goes through."""

from collections.abc import Mapping
from datetime import date
from typing import Any

from archive.export import export_database
from archive.manifest import Manifest
from archive.place import Archive
from archive.verify import verify_database


class Keeper:
    """Writes archives and reads them back; both answer with the manifest. Errors are those of the two modules."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    async def export(self, connection: Any, *, xx: int, day: date, proof: Mapping[str, Any] | None) -> Manifest:
        """See `archive.export.export_database`."""
        return await export_database(connection, *self._archive, xx=xx, day=day, proof=proof)

    async def verify(self, connection: Any, *, xx: int, day: date) -> Manifest:
        """See `archive.verify.verify_database`."""
        return (await verify_database(connection, *self._archive, xx=xx, day=day)).manifest
