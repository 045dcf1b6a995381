"""The writes of a commit to the SET's Postgres: claims with their payout intent, wrong passwords, headers.

Every statement runs alone or in one explicit transaction, without a timeout on the client: a commit is never cancelled.
The caller decides what a lost connection means (`runtime.postgres.is_lost`).
"""

from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import asyncpg
from msgspec.structs import astuple

from envelope.terms import Terms
from runtime import logs, sql
from runtime.postgres import is_bad_row
from runtime.postgres.arrays import flags, numbers, texts, texts_or_null
from setnode.actors.batch import ClaimBatch, Row
from setnode.commit.fences import closed_day, lacks_tables
from setnode.commit.invalidation import payload
from sharding.ids import day_of, slot_of

_APPEND = sql.read("setnode", "append_claims")
_CONTENDED = sql.read("setnode", "append_contended")
_WRONG = sql.read("setnode", "count_wrong_passwords")
_NOTE = sql.read("setnode", "note_foreign_writes")
_INSERT = sql.read("setnode", "insert_envelopes")
_INSERT_CONTENDED = sql.read("setnode", "insert_contended")

Connection = Any
_ENVELOPE = itemgetter(0)

_log = logs.get("setnode")


class Written(NamedTuple):
    """What was written: the ID of the payout batch (None without claims).

    Of `refused` envelopes nothing was written: another server wrote to them first, or their day is closed. Nor of the
    `bad` ones, which are among them: Postgres does not accept one of their rows, and would not if it were sent again.
    """

    batch_id: int | None
    refused: frozenset[int] = frozenset()
    bad: frozenset[int] = frozenset()


class _Probed(Exception):
    """Rolls back a transaction that was only to show whether Postgres accepts its rows."""


class _Conflict(Exception):
    """Another server wrote to these envelopes first: the transaction rolls back and is repeated without them."""

    def __init__(self, envelope_ids: frozenset[int]) -> None:
        super().__init__(envelope_ids)
        self.envelope_ids = envelope_ids


async def append_claims(connection: Connection, batch: ClaimBatch, server: str, foreign: Sequence[int]) -> Written:
    """Write a batch of claims and wrong passwords in one transaction; durable when it returns.

    The usual statement is strict: any conflict fails all of it. After a unique violation (a second writer) the
    contended statement follows, which is all or nothing for each envelope. `foreign` are the envelopes that this
    server writes for their owners, who are notified in the same transaction (`setnode.commit.invalidation`). A row
    that Postgres does not accept costs its own envelope only. Other errors of Postgres pass.
    """
    if batch.tries or foreign:
        return await _per_envelope(connection, batch, server, foreign)
    try:
        return Written(await connection.fetchval(_APPEND, *_columns(batch.claims, batch), server))
    except asyncpg.UniqueViolationError:
        pass
    except asyncpg.PostgresError as error:
        if closed_day(error) is None and not _is_of_one_envelope(error):
            raise
        return await _per_envelope(connection, batch, server, foreign)
    try:
        return await _contended(connection, batch.claims, batch, server)
    except asyncpg.PostgresError as error:
        if closed_day(error) is None and not _is_of_one_envelope(error):
            raise
        return await _per_envelope(connection, batch, server, foreign)


async def _per_envelope(connection: Connection, batch: ClaimBatch, server: str, foreign: Sequence[int]) -> Written:
    """Write wrong passwords and claims, all or nothing for each envelope; repeated without those that were refused."""
    ids = {claim[0] for claim in batch.claims} | {one[0] for one in batch.tries}
    refused: frozenset[int] = frozenset()
    bad: frozenset[int] = frozenset()
    while True:
        try:
            async with connection.transaction():
                if foreign:
                    await connection.execute(_NOTE, foreign, payload(foreign))
                written = await _tries_and_claims(connection, batch, refused, server)
            return written._replace(bad=bad)
        except _Conflict as conflict:
            refused |= conflict.envelope_ids
        except asyncpg.PostgresError as error:
            if (day := closed_day(error)) is not None:
                # As after a conflict: the actors reload, and find all envelopes of that day final.
                refused |= {envelope_id for envelope_id in ids if day_of(envelope_id) == day}
                continue
            if not _is_of_one_envelope(error):
                raise
            found = await _bad_envelopes(connection, batch, sorted(ids - refused), server)
            if not found:
                raise
            _log.error("rows set apart", reason=str(error), envelope_ids=[str(one) for one in sorted(found)[:10]])
            bad |= found
            refused |= found


def _is_of_one_envelope(error: BaseException) -> bool:
    """Say whether an error comes from single rows, so that the other envelopes can be written without them.

    A unique violation that is left after `append_contended` is a claim log with a gap, or with a user twice.
    """
    return (is_bad_row(error) and not lacks_tables(error)) or isinstance(error, asyncpg.UniqueViolationError)


async def _bad_envelopes(
    connection: Connection, batch: ClaimBatch, envelope_ids: Sequence[int], server: str
) -> frozenset[int]:
    """Find the envelopes whose rows are not accepted, by halves; every probe is rolled back."""
    if await _accepts(connection, batch, frozenset(envelope_ids), server):
        return frozenset()
    if len(envelope_ids) == 1:
        return frozenset(envelope_ids)
    middle = len(envelope_ids) // 2
    first = await _bad_envelopes(connection, batch, envelope_ids[:middle], server)
    return first | await _bad_envelopes(connection, batch, envelope_ids[middle:], server)


async def _accepts(connection: Connection, batch: ClaimBatch, envelope_ids: frozenset[int], server: str) -> bool:
    """Say whether Postgres accepts the rows of these envelopes; a conflict or a fence is no matter of the rows."""
    others = frozenset({claim[0] for claim in batch.claims} | {one[0] for one in batch.tries}) - envelope_ids
    try:
        async with connection.transaction():
            await _tries_and_claims(connection, batch, others, server)
            raise _Probed
    except (_Probed, _Conflict):
        return True
    except asyncpg.PostgresError as error:
        if closed_day(error) is None and not _is_of_one_envelope(error):
            raise
        return closed_day(error) is not None


async def _tries_and_claims(connection: Connection, batch: ClaimBatch, refused: frozenset[int], server: str) -> Written:
    """Write both in the open transaction; raises _Conflict for envelopes with tries that cannot be written whole."""
    tries = [one for one in batch.tries if one[0] not in refused]
    claims = [claim for claim in batch.claims if claim[0] not in refused]
    if tries:
        row = await connection.fetchrow(_WRONG, *map(list, zip(*tries, strict=True)))
        if row["refused"]:
            raise _Conflict(frozenset(row["refused"]))
    if not claims:
        return Written(None, refused)
    written = await _contended(connection, claims, batch, server)
    if counted := written.refused & {one[0] for one in tries}:
        raise _Conflict(counted)
    return Written(written.batch_id, written.refused | refused)


async def _contended(connection: Connection, claims: Sequence[Row], batch: ClaimBatch, server: str) -> Written:
    row = await connection.fetchrow(_CONTENDED, *_columns(claims, batch), server)
    written = frozenset(row["envelope_ids"] or ())
    return Written(row["batch_id"], frozenset(claim[0] for claim in claims) - written)


def _columns(claims: Sequence[Row], batch: ClaimBatch) -> tuple[Any, ...]:
    if len(batch.actors) > 1:
        claims = by_leaf(claims)
    ids, seqs, shares, kinds, users, amounts = zip(*claims, strict=True)
    return numbers(ids), numbers(seqs), numbers(shares), texts(kinds), texts(users), numbers(amounts), batch.at


def by_leaf(claims: Sequence[Row]) -> list[Row]:
    """Return the claims by leaf (slot) and envelope, those of an envelope in the order given.

    Postgres then visits each leaf's table and indexes once, from left to right. Grouping by leaf first is faster in
    Python than sorting all claims by (slot, ID).
    """
    leaves = defaultdict(list)
    for claim in claims:
        leaves[slot_of(claim[0])].append(claim)
    return [claim for slot in sorted(leaves) for claim in sorted(leaves[slot], key=_ENVELOPE)]


async def insert_envelopes(connection: Connection, batch: Sequence[Terms]) -> set[int]:
    """Insert headers in one transaction; returns the IDs inserted (the others existed before); durable then.

    As with claims, the contended statement follows the strict one after a unique violation, so the connection must not
    be in a transaction.
    """
    columns = _header_columns(batch)
    try:
        await connection.execute(_INSERT, *columns)
    except asyncpg.UniqueViolationError:
        return {row["envelope_id"] for row in await connection.fetch(_INSERT_CONTENDED, *columns)}
    return {terms.envelope_id for terms in batch}


def _header_columns(batch: Sequence[Terms]) -> tuple[str, ...]:
    # The fields of Terms are in the order of the statement's parameters.
    (
        ids, senders, kinds, splits, versions, totals, counts, greetings, created, opens, expires, seeds, keys, invited,
        passwords, least, most, seals,
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
        numbers(least),
        numbers(most),
        texts_or_null(seals),
    )
