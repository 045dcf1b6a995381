"""The checks of cold days: rows of a dropped day come from its verified archive, and sums are those of the register.

Because of the sums, a row of a day that is closed cannot be removed together with its money.
"""

import asyncio
from collections import defaultdict
from contextlib import AsyncExitStack

from archive import engine, store, stream
from archive.limits import THREADS_IN_ORDER
from archive.place import Archive
from audit.report import Report
from audit.snapshot import DayPart, Rows, from_postgres
from audit.sums import DaySums
from envelope.claim_log import ClaimLog
from errors import Refused
from runtime.postgres import Connection
from schema import names
from schema.names import TableKind
from sharding.ids import database_for
from sharding.slots import database_name

_READABLE = """
SELECT bool_and(coalesce(has_table_privilege(to_regclass('public.' || name), 'SELECT'), false))
FROM unnest($1::text[]) AS name
"""


async def rows_of(stack: AsyncExitStack, connection: Connection, part: DayPart, archive: Archive | None) -> Rows:
    """Return the rows of a part, wherever they are; what is opened for them is closed with the stack.

    Raises Refused if they cannot be read: `archive_missing`, `archive_forged`, `archive_corrupt`, `day_not_here`,
    and as `objectstore`.
    """
    if part.xx is None:
        await _check_tables(connection, part)
        return from_postgres(connection, part)
    archive = _given(archive)
    digest = part.entries[part.xx].manifest_sha256
    found = await asyncio.to_thread(store.verified, archive, xx=part.xx, day=part.day, digest=digest)
    where = found.where
    duck = await asyncio.to_thread(engine.connect, threads=THREADS_IN_ORDER, reads=where)
    stack.callback(duck.close)
    return Rows(stream.headers(duck, where), stream.claims(duck, where), stream.receivers(duck, where))


async def check_place(connection: Connection, part: DayPart, archive: Archive | None) -> None:
    """Raise Refused as `rows_of` unless the rows of a part that was proven are where they were.

    Of an archive signature, digest and sizes are compared, which takes the same time however large it is. That no byte
    of its files has changed since they were read whole is for `archive.verify` to find, which holds neither locks nor
    snapshots meanwhile.
    """
    if part.xx is None:
        await _check_tables(connection, part)
    else:
        await asyncio.to_thread(_check_archive, part.xx, part, archive)


async def _check_tables(connection: Connection, part: DayPart) -> None:
    tables = [names.day_table(kind, part.day) for kind in TableKind]
    if not part.hot and not await connection.fetchval(_READABLE, tables):
        raise Refused("day_not_here", f"its tables {', '.join(tables)} are not there, or not for the audit to read")


def _check_archive(xx: int, part: DayPart, archive: Archive | None) -> None:
    archive = _given(archive)
    found = store.opened(archive, xx=xx, day=part.day, digest=part.entries[xx].manifest_sha256)
    sizes = store.sizes(archive, found)
    for name, file in found.manifest.files.items():
        if sizes[name] is None:
            raise Refused("archive_missing", f"{name} is missing in {found.where}")
        if sizes[name] != file.size:
            raise Refused("archive_corrupt", f"{name} in {found.where} has another size than was exported")


def _given(archive: Archive | None) -> Archive:
    if archive is None:
        raise Refused("archive_missing", "it is dropped, and the audit was given no archive")
    return archive


def missing_rows(part: DayPart, why: Refused, report: Report) -> None:
    """Report that rows named by the register cannot be read."""
    for xx, standing in part.entries.items():
        fen = standing.paid_in_fen
        report.add("cold_day_is_there", f"{database_name(xx)} {part.day}", f"{standing.state}: {why.detail}", fen)


class RegisterCheck:
    """Compares the register's sums of a part with the logs that were replayed."""

    def __init__(self, part: DayPart) -> None:
        self._part = part
        self._sums: dict[int, DaySums] = defaultdict(DaySums)

    def add(self, log: ClaimLog) -> None:
        """Add an envelope, if the register has an entry for its database."""
        xx = database_for(log.terms.envelope_id)
        if xx in self._part.entries:
            self._sums[xx].add(log)

    def compare(self, report: Report) -> None:
        """Report each database whose sums differ."""
        for xx, one in self._part.entries.items():
            said = DaySums(one.envelopes, one.claims, one.paid_in_fen, one.claimed_fen, one.refunded_fen)
            found = self._sums[xx]
            if said != found:
                sentence = f"the register says {said}, its rows say {found}"
                subject = f"{database_name(xx)} {self._part.day}"
                report.add("register_matches_rows", subject, sentence, said.paid_in_fen - found.paid_in_fen)
