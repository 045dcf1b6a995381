"""What a commit writes to the SET's Postgres: claims with their payout intent, wrong tries, headers.

Every statement that writes runs alone or in one explicit transaction, without a client-side timeout: a commit is
never cancelled. Whoever calls decides what a lost connection means (`runtime.postgres.is_lost`).
"""

from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import asyncpg
from msgspec.structs import astuple

from envelope.terms import Terms
from runtime.literals import flags, numbers, texts, texts_or_null
from setnode import queries
from setnode.actors.batch import ClaimBatch, Row
from setnode.commit.fences import closed_day
from sharding.ids import day_of
from sharding.slots import MAX_SLOTS

_APPEND = queries.read("append_claims")
_CONTENDED = queries.read("append_contended")
_WRONG = queries.read("count_wrong_passwords")
_INSERT = queries.read("insert_envelopes")
_INSERT_CONTENDED = queries.read("insert_contended")

Connection = Any
_ENVELOPE = itemgetter(0)


class Written(NamedTuple):
    """What a batch left in the database. `refused` are envelopes of which nothing was written: a rival was first."""

    batch_id: int | None
    refused: frozenset[int] = frozenset()


class _RivalCounted(Exception):
    """Another server was first at these envelopes."""

    def __init__(self, envelope_ids: frozenset[int]) -> None:
        super().__init__(envelope_ids)
        self.envelope_ids = envelope_ids


async def append_claims(connection: Connection, batch: ClaimBatch, server: str, foreign: str) -> Written:
    """Write a batch of claims and wrong tries in one transaction; durable when it returns.

    The plain way is strict: one statement, one round trip. A unique violation (a second writer) takes the contended
    way, which is all or nothing per envelope. `foreign` is what the owners of envelopes we stand in for are told
    (`rivals`).
    """
    if batch.tries:
        return await _in_parts(connection, batch, server, foreign)
    try:
        return Written(await connection.fetchval(_APPEND, *_columns(batch.claims, batch), server, foreign))
    except asyncpg.UniqueViolationError:
        return await _contended(connection, batch.claims, batch, server, foreign)
    except asyncpg.PostgresError as error:
        if closed_day(error) is None:
            raise
        return await _in_parts(connection, batch, server, foreign)


async def _in_parts(connection: Connection, batch: ClaimBatch, server: str, foreign: str) -> Written:
    """Write tries and claims, all or nothing per envelope: what was refused is left out and the rest tried again."""
    refused: frozenset[int] = frozenset()
    while True:
        try:
            async with connection.transaction():
                return await _tries_and_claims(connection, batch, refused, server, foreign)
        except _RivalCounted as rival:
            refused |= rival.envelope_ids
        except asyncpg.PostgresError as error:
            if (day := closed_day(error)) is None:
                raise
            # As in a race that was lost: the actors read the truth, which is final for all envelopes of that day.
            ids = {claim[0] for claim in batch.claims} | {one[0] for one in batch.tries}
            refused |= {envelope_id for envelope_id in ids if day_of(envelope_id) == day}


async def _tries_and_claims(
    connection: Connection, batch: ClaimBatch, refused: frozenset[int], server: str, foreign: str
) -> Written:
    tries = [one for one in batch.tries if one[0] not in refused]
    claims = [claim for claim in batch.claims if claim[0] not in refused]
    if tries:
        row = await connection.fetchrow(_WRONG, *map(list, zip(*tries, strict=True)), foreign)
        if row["refused"]:
            raise _RivalCounted(frozenset(row["refused"]))
    if not claims:
        return Written(None, refused)
    written = await _contended(connection, claims, batch, server, foreign)
    if counted := written.refused & {one[0] for one in tries}:
        raise _RivalCounted(counted)
    return Written(written.batch_id, written.refused | refused)


async def _contended(
    connection: Connection, claims: Sequence[Row], batch: ClaimBatch, server: str, foreign: str
) -> Written:
    row = await connection.fetchrow(_CONTENDED, *_columns(claims, batch), server, foreign)
    written = frozenset(row["envelope_ids"] or ())
    return Written(row["batch_id"], frozenset(claim[0] for claim in claims) - written)


def _columns(claims: Sequence[Row], batch: ClaimBatch) -> tuple[Any, ...]:
    if len(batch.actors) > 1:
        claims = by_leaf(claims)
    ids, seqs, shares, kinds, users, amounts = zip(*claims, strict=True)
    return numbers(ids), numbers(seqs), numbers(shares), texts(kinds), texts(users), numbers(amounts), batch.at


def by_leaf(claims: Sequence[Row]) -> list[Row]:
    """Return the claims leaf by leaf, in each by envelope, those of an envelope in the order in which they came.

    A leaf's table and its indexes are then gone through once, from left to right: that is a seventh of what Postgres
    has to do for a batch of thousands. To sort all of them by (slot, ID) would take Python twice as long.
    """
    leaves = defaultdict(list)
    for claim in claims:
        leaves[claim[0] % MAX_SLOTS].append(claim)
    return [claim for slot in sorted(leaves) for claim in sorted(leaves[slot], key=_ENVELOPE)]


async def insert_envelopes(connection: Connection, batch: Sequence[Terms]) -> set[int]:
    """Insert headers in one transaction of their own; returns the IDs that went in (the others stood already).

    The plain way is strict, as with claims: an ID that stands fails the statement, and only then each is looked at.
    So the connection must not be in a transaction.
    """
    columns = _header_columns(batch)
    try:
        await connection.execute(_INSERT, *columns)
    except asyncpg.UniqueViolationError:
        return {row["envelope_id"] for row in await connection.fetch(_INSERT_CONTENDED, *columns)}
    return {terms.envelope_id for terms in batch}


def _header_columns(batch: Sequence[Terms]) -> tuple[str, ...]:
    # The fields of Terms are in the order of the columns.
    (
        ids, senders, kinds, splits, versions, totals, counts, greetings, created, opens, expires, seeds, keys, invited,
        passwords,
    ) = zip(*map(astuple, batch), strict=True)  # fmt: skip
    guests = [
        (envelope_id, user) for envelope_id, users in zip(ids, invited, strict=True) for user in sorted(users or ())
    ]
    return (
        numbers(ids),
        texts(senders),
        texts(kinds),
        texts(splits),
        numbers(versions),
        numbers(totals),
        numbers(counts),
        texts(greetings),
        numbers(created),
        numbers(opens),
        numbers(expires),
        texts([seed.hex() for seed in seeds]),
        texts(keys),
        flags([users is not None for users in invited]),
        texts_or_null(passwords),
        numbers([envelope_id for envelope_id, _ in guests]),
        texts([user for _, user in guests]),
    )
