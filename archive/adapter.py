"""The archive as the rotation uses it: the two steps of a day, export and verify, on one folder and key."""

from collections.abc import Mapping
from datetime import date
from typing import Any

from archive import store
from archive.export import archive_lock, export_database
from archive.known import known_of
from archive.manifest import Manifest
from archive.place import Archive
from archive.register import NAMED
from archive.threads import run_blocking
from archive.verify import verify_database
from runtime.postgres import Connection


class ArchiveAdapter:
    """Exports and verifies archives; both return the manifest. Errors: those of export and verify."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    async def export(self, connection: Connection, *, xx: int, day: date, proof: Mapping[str, Any] | None) -> Manifest:
        """See `archive.export.export_database`."""
        return await export_database(connection, *self._archive, xx=xx, day=day, proof=proof)

    async def verify(self, connection: Connection, *, xx: int, day: date) -> Manifest:
        """See `archive.verify.verify_database`; what it has taken the place of is removed, if known here."""
        found = (await verify_database(connection, *self._archive, xx=xx, day=day)).manifest
        async with archive_lock(connection, xx=xx, day=day):
            # Again behind the lock: a command that forgets a user may have published another archive meanwhile.
            if await connection.fetchval(NAMED, day, xx) == found.digest:
                known = await known_of(connection, xx=xx, day=day)
                await run_blocking(store.discard_others, self._archive, known, xx=xx, day=day, digest=found.digest)
        return found
