"""The proof of cold days: the rows of dropped ones come out of an archive that is believed, or the hole is named.

What the register says that a day held is held against what was read, so that a row cannot go together with its money.
"""

import asyncio
from collections import defaultdict
from contextlib import AsyncExitStack
from typing import Any

from archive import engine, place, stream
from archive.place import Archive
from audit.cut import Piece, Rows, from_postgres
from audit.report import Report
from audit.sums import DaySums
from envelope.claim_log import ClaimLog
from envelope.errors import Refused
from schema import names
from schema.names import Kind
from sharding.slots import database_name, database_of

_READABLE = """
SELECT bool_and(coalesce(has_table_privilege(to_regclass('public.' || name), 'SELECT'), false))
FROM unnest($1::text[]) AS name
"""


async def rows_of(stack: AsyncExitStack, connection: Any, piece: Piece, archive: Archive | None) -> Rows:
    """Give the rows of a piece, wherever they are; what was opened is closed with the stack.

    Raises Refused where they are not to be had: `archive_missing`, `archive_forged`, `archive_corrupt`, `day_not_here`.
    """
    if piece.xx is None:
        tables = [names.day_table(kind, piece.day) for kind in (Kind.ENVELOPE, Kind.CLAIM)]
        if not piece.hot and not await connection.fetchval(_READABLE, tables):
            raise Refused(
                "day_not_here", f"its tables {' and '.join(tables)} are not there, or not for the audit to read"
            )
        return from_postgres(connection, piece)
    if archive is None:
        raise Refused("archive_missing", "it is dropped, and the audit was given no archive")
    digest = piece.standings[piece.xx].manifest_sha256
    await asyncio.to_thread(place.believed, archive, xx=piece.xx, day=piece.day, digest=digest)
    duck = await asyncio.to_thread(engine.connect, threads=engine.IN_ORDER)
    stack.callback(duck.close)
    where = place.folder_of(archive.folder, xx=piece.xx, day=piece.day)
    return Rows(stream.headers(duck, where), stream.claims(duck, where))


def hole(piece: Piece, why: Refused, report: Report) -> None:
    """Note that rows are not to be had that the register says there are."""
    for xx, standing in piece.standings.items():
        fen = standing.paid_in_fen
        report.add("cold_day_is_there", f"{database_name(xx)} {piece.day}", f"{standing.state}: {why.detail}", fen)


class Registered:
    """What the register says of a piece, against the logs that were replayed of it."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self._sums: dict[int, DaySums] = defaultdict(DaySums)

    def add(self, log: ClaimLog) -> None:
        """Count an envelope, where the register says something of its database."""
        xx = database_of(log.terms.slot)
        if xx in self._piece.standings:
            self._sums[xx].add(log)

    def compare(self, report: Report) -> None:
        """Note where the two differ."""
        for xx, one in self._piece.standings.items():
            said = DaySums(one.envelopes, one.claims, one.paid_in_fen, one.claimed_fen, one.refunded_fen)
            found = self._sums[xx]
            if said != found:
                sentence = f"the register says {said}, its rows say {found}"
                subject = f"{database_name(xx)} {self._piece.day}"
                report.add("register_matches_rows", subject, sentence, said.paid_in_fen - found.paid_in_fen)
