"""A business day that is long over: envelopes sold out and paid to the fen, written by SQL into a SET and the wallet.

The rows are those that the system itself would have left: headers, claims, funds, credits, and balances that are their
sums. Every envelope has 20 lucky shares of its own seed. Postgres writes them, so that a million takes a minute.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

from envelope.header_hash import header_hash
from envelope.split import SPLIT_VERSION, Split, amounts
from envelope.terms import Kind, Terms
from runtime import postgres
from runtime.clock import to_ms
from schema import names
from schema.day_tables import DayTables
from schema.names import TableKind
from sharding.ids import BUSINESS_ZONE, SERIALS, make_id
from sharding.slots import slots_of

SHARES, FEN = 20, 100
MORNING = time(10)
SENDERS, USERS = 50, 100_000

_MADE = """
CREATE TEMP TABLE made (
    n bigint, id bigint, slot smallint, sender varchar, create_key varchar, seed varchar, total_fen bigint,
    fens integer[], header_hash bytea
) ON COMMIT DROP
"""
_ENVELOPES = """
INSERT INTO {table} (envelope_id, slot, sender, kind, split, split_version, total_fen, shares, greeting, created_at,
    opens_at, expires_at, seed, create_key, named)
SELECT id, slot, sender, 'lucky', 'double_mean', {version}, total_fen, {shares}, '', $1::timestamptz, $1::timestamptz,
    $1::timestamptz + interval '1 day', seed, create_key, false FROM made
"""
_CLAIMS = """
INSERT INTO {table} (envelope_id, slot, seq, shares, kind, user_id, amount_fen, claimed_at)
SELECT id, slot, seq, {shares}, 'open', 'past-user-' || {user}, fens[seq + 1],
    $1::timestamptz + seq * interval '2 seconds' + (hashint8(n + seq) & 1023) * interval '1 millisecond'
FROM made CROSS JOIN generate_series(0, {shares} - 1) AS seq
"""
_ACCOUNTS = """
INSERT INTO account (name, kind)
SELECT 'user:past-' || n, 0 FROM generate_series(0, {senders} - 1) AS n
UNION ALL SELECT 'user:past-user-' || n, 0 FROM generate_series(0, {users} - 1) AS n
UNION ALL SELECT 'outside', 2
UNION ALL SELECT DISTINCT 'escrow:' || $1::text || ':' || lpad(slot::text, 3, '0'), 1 FROM made
ON CONFLICT (name) DO NOTHING
"""
_DEPOSITS = """
INSERT INTO transfer (order_no, kind, debit_account, credit_account, user_account, amount_fen, created_at)
SELECT 'Dpast' || $1::text || '.' || u.account_id, 0, o.account_id, u.account_id, u.account_id, m.fen, $2
FROM (SELECT sender, sum(total_fen)::bigint AS fen FROM made GROUP BY sender) m
JOIN account u ON u.name = 'user:' || m.sender JOIN account o ON o.name = 'outside'
"""
_FUNDED = """
INSERT INTO transfer (order_no, kind, debit_account, credit_account, user_account, amount_fen, envelope_id, created_at)
SELECT 'F' || m.create_key, 1, u.account_id, e.account_id, u.account_id, m.total_fen, m.id, $2
FROM made m JOIN account u ON u.name = 'user:' || m.sender
JOIN account e ON e.name = 'escrow:' || $1::text || ':' || lpad(m.slot::text, 3, '0') ORDER BY m.n
"""
_FUNDS = """
INSERT INTO fund (create_key, fingerprint, user_account, total_fen, left_fen, envelope_id, header_hash, draft,
    created_at)
SELECT m.create_key, m.create_key || m.create_key, u.account_id, m.total_fen, 0, m.id, m.header_hash, '', $1
FROM made m JOIN account u ON u.name = 'user:' || m.sender ORDER BY m.n
"""
_CREDITS = """
INSERT INTO transfer (order_no, kind, debit_account, credit_account, user_account, amount_fen, envelope_id, created_at)
SELECT m.id || '.' || seq, 2, e.account_id, u.account_id, u.account_id, m.fens[seq + 1], m.id, $2
FROM made m CROSS JOIN generate_series(0, {shares} - 1) AS seq
JOIN account u ON u.name = 'user:past-user-' || {user}
JOIN account e ON e.name = 'escrow:' || $1::text || ':' || lpad(m.slot::text, 3, '0')
"""
_BALANCES = """
UPDATE account SET balance_fen = s.fen FROM (
    SELECT account_id, sum(fen)::bigint AS fen FROM (
        SELECT credit_account AS account_id, amount_fen AS fen FROM transfer
        UNION ALL SELECT debit_account, -amount_fen FROM transfer
    ) postings GROUP BY account_id
) s WHERE s.account_id = account.account_id AND balance_fen <> s.fen
"""
_USER = f"((hashint8(n) & 2147483647)::bigint + seq * 4999) % {USERS}"
"""Spread over all users, and never one twice in an envelope."""
_SIZES = {"shares": SHARES, "senders": SENDERS, "users": USERS, "user": _USER, "version": SPLIT_VERSION}


@dataclass(frozen=True)
class Past:
    """One day of one SET: its claims, and the IDs of some of its envelopes."""

    day: date
    claims: int
    some: Sequence[int]


async def make_past(set_dsn: str, wallet_dsn: str, databases: Sequence[int], day: date, claims: int) -> Past:
    """Write `claims` claims into the tables of `day` (made here), and their money into the wallet. Owners' DSNs."""
    await DayTables(set_dsn, databases).ensure(day, ahead_days=0)
    at = datetime.combine(day, MORNING, BUSINESS_ZONE)
    made = await asyncio.to_thread(_draft, at, databases, claims // SHARES)
    await _in_one(set_dsn, made, lambda connection: _rows(connection, at))
    await _in_one(wallet_dsn, made, lambda connection: _money(connection, at))
    return Past(day, len(made) * SHARES, [row[1] for row in made[:: max(1, len(made) // 200)]])


def _draft(at: datetime, databases: Sequence[int], envelopes: int) -> list[tuple[Any, ...]]:
    """Return a row of `made` for each envelope."""
    slots = [slot for xx in databases for slot in slots_of(xx)]
    rows = []
    for n in range(envelopes):
        slot, seed = slots[n % len(slots)], secrets.token_bytes(32)
        total_fen = SHARES * (FEN + n % 9_900)
        fens = amounts(Split.DOUBLE_MEAN, total_fen, SHARES, seed, SPLIT_VERSION)
        envelope_id = make_id(at.date(), n * 7919 % SERIALS, slot)
        sender, create_key = f"past-{n % SENDERS}", secrets.token_hex(16)
        terms = _terms(envelope_id, sender, total_fen, to_ms(at), seed, create_key)
        rows.append((n, envelope_id, slot, sender, create_key, seed.hex(), total_fen, fens, header_hash(terms)))
    return rows


def _terms(envelope_id: int, sender: str, total_fen: int, at_ms: int, seed: bytes, create_key: str) -> Terms:
    """Return the header that _ENVELOPES writes."""
    kind, split, day_ms = Kind.LUCKY, Split.DOUBLE_MEAN, 86_400_000
    return Terms(
        envelope_id,
        sender,
        kind,
        split,
        SPLIT_VERSION,
        total_fen,
        SHARES,
        "",
        at_ms,
        at_ms,
        at_ms + day_ms,
        seed,
        create_key,
    )


async def _in_one(dsn: str, made: Sequence[tuple[Any, ...]], write: Callable[[Any], Awaitable[None]]) -> None:
    connection = await postgres.connect(dsn)
    try:
        async with connection.transaction():
            await connection.execute(_MADE)
            await connection.copy_records_to_table("made", records=made)
            await connection.execute("ANALYZE made")
            await write(connection)
        await connection.execute("ANALYZE")
    finally:
        await connection.close(timeout=postgres.CONNECT_S)


async def _rows(connection: Any, at: datetime) -> None:
    for kind, query in ((TableKind.ENVELOPE, _ENVELOPES), (TableKind.CLAIM, _CLAIMS)):
        # Into the day's own table: the trigger on all claims is for those that are opened now.
        await connection.execute(query.format(table=names.day_table(kind, at.date()), **_SIZES), at)


async def _money(connection: Any, at: datetime) -> None:
    digits = f"{at:%y%m%d}"
    await connection.execute(_ACCOUNTS.format(**_SIZES), digits)
    for query in (_DEPOSITS, _FUNDED, _CREDITS):
        await connection.execute(query.format(**_SIZES), digits, at)
    await connection.execute(_FUNDS.format(**_SIZES), at)
    await connection.execute(_BALANCES)
