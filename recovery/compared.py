"""Reads a day of a SET and the wallet beside each other, envelope by envelope, in order of ID."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from audit.day import PAYOUTS
from audit.merge_cursor import MergeCursor
from audit.snapshot import DayPart, from_postgres
from runtime.postgres import Connection
from sharding.ids import end_id, first_id


class Compared(NamedTuple):
    """What the SET has of an envelope, and what the wallet has paid of it; rows are those of the audit's queries."""

    envelope_id: int
    header: Any
    logged: Sequence[Any]
    named: frozenset[str]
    paid: Sequence[Any]


async def compared(connection: Connection, wallet: Connection, part: DayPart) -> AsyncIterator[Compared]:
    """Yield each envelope of a part of a day; both connections are snapshots. What no envelope belongs to is left."""
    rows = from_postgres(connection, part)
    claims, receivers = MergeCursor(rows.claims), MergeCursor(rows.receivers)
    low, high, slots = first_id(part.day), end_id(part.day), sorted(part.slots)
    paid = MergeCursor.of(wallet, PAYOUTS, str(low), str(high), slots, orphan=nothing)
    async for header in rows.headers:
        envelope_id = header["envelope_id"]
        logged = await claims.advance_to(envelope_id)
        named = frozenset(row["user_id"] for row in await receivers.advance_to(envelope_id))
        yield Compared(envelope_id, header, logged, named, await paid.advance_to(envelope_id))


def nothing(_row: Any) -> None:
    """Leave a row alone that belongs to no envelope here: the audit and the sweeper look at it."""
