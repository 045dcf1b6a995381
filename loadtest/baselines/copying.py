"""The limit: COPY of the same rows into the same partitioned tables, 1,000 a transaction, over one connection.

No decision, no answer, no payout intent: what Postgres takes when nothing else is asked of it.
"""

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from sharding.ids import slot_of

COLUMNS = ("envelope_id", "slot", "seq", "shares", "kind", "user_id", "amount_fen", "claimed_at")
Row = tuple[int, int, int, int, str, str, int, datetime]

ROWS = 1_000


def rows(asks: Iterable[tuple[int, str]], shares: int, amount_fen: int) -> list[Row]:
    """Return the claims that these opens make, each envelope's in its order."""
    now, next_seq = datetime.now(UTC), dict[int, int]()
    made: list[Row] = []
    for envelope_id, user in asks:
        seq = next_seq.get(envelope_id, 0)
        next_seq[envelope_id] = seq + 1
        made.append((envelope_id, slot_of(envelope_id), seq, shares, "open", user, amount_fen, now))
    return made


async def copy(connection: Any, claims: list[Row]) -> float:
    """Write the claims; returns rows a second."""
    started = time.perf_counter()
    for at in range(0, len(claims), ROWS):
        # Outside an explicit transaction a COPY is one by itself.
        await connection.copy_records_to_table("claim", records=claims[at : at + ROWS], columns=COLUMNS)
    return len(claims) / (time.perf_counter() - started)
