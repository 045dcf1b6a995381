"""The digest of a part: what a proof has read of it, in one hash, computed where the rows are.

    digest = SHA-256( for each of headers, claims, receivers, payouts, funds: the digest of its rows; the register's
                      entries )

Postgres hashes the rows of an envelope, as text and sorted, then the hashes of the envelopes of each second, and sends
32 bytes a second. Of a dropped day, whose archive was verified when it was proven, the manifest's digest stands for
headers, claims and receivers. The rows are those of the very queries with which the day is proven, so an edit that
could change the result of a proof changes the digest.
"""

import hashlib
from collections.abc import Collection
from typing import Any, Final

from audit.day import FUNDS, PAYOUTS
from audit.snapshot import DayPart, in_tables, set_queries
from errors import InvariantBroken
from runtime.postgres import Connection
from sharding.ids import end_id, first_id
from sharding.slots import MAX_SLOTS, TAILS

_PER_SECOND: Final = """
SELECT sha256(string_agg(digest, ''::bytea ORDER BY envelope_id)) AS digest
FROM (
    SELECT envelope_id, sha256(convert_to(string_agg(line, E'\\n' ORDER BY line COLLATE "C"), 'UTF8')) AS digest
    FROM (SELECT q.envelope_id, q::text AS line FROM ({query}) q) lines
    GROUP BY envelope_id
) envelopes
GROUP BY envelope_id / {second} ORDER BY envelope_id / {second}
"""
_AGE: Final = "(extract(epoch FROM now() - f.created_at))::float8 AS age_s"
_PREFETCH: Final = 2_000
"""Of 32 bytes each."""


def _without_age(query: str) -> str:
    """Return the query of funds with the instant in place of its age, which would be another at each audit."""
    if _AGE not in query:
        raise InvariantBroken("digest_is_stable", "the query of funds does not tell ages as the digest expects")
    return query.replace(_AGE, "extract(epoch FROM f.created_at)")


_QUERY_OF_FUNDS: Final = _without_age(FUNDS)


async def digest_of(connection: Connection, wallet: Connection, part: DayPart) -> str:
    """Return the digest of a part in the snapshots of both connections; an archive was checked by the caller."""
    low, high, slots = first_id(part.day), end_id(part.day), sorted(part.slots)
    whole = hashlib.sha256()
    if part.xx is None:
        for query in set_queries():
            whole.update(await _of_rows(connection, in_tables(part)(query), low, high, slots))
    whole.update(await _of_rows(wallet, PAYOUTS, str(low), str(high), slots))
    whole.update(await _of_rows(wallet, _QUERY_OF_FUNDS, low, high, slots))
    for xx, entry in sorted(part.entries.items()):
        sums = (entry.envelopes, entry.claims, entry.paid_in_fen, entry.claimed_fen, entry.refunded_fen)
        # Where the rows are may change; what they are may not. Of a dropped day the manifest says what they are.
        names = entry.manifest_sha256 if part.xx is not None else None
        whole.update(f"{xx} {sums} {names}\n".encode())
    return whole.hexdigest()


async def _of_rows(
    connection: Connection, query: str, low: int | str, high: int | str, slots: Collection[int]
) -> bytes:
    rows = hashlib.sha256()
    cursor: Any = connection.cursor(
        _PER_SECOND.format(query=query, second=TAILS * MAX_SLOTS), low, high, slots, prefetch=_PREFETCH
    )
    async for row in cursor:
        rows.update(row["digest"])
    return rows.digest()
