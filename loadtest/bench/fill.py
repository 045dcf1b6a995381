"""Fills day tables without the setnode: headers and claims by COPY, straight into the leaves, as the owner.

Sketch: a claim is 75 bytes of text, 110 of table and 110 of two indexes; Postgres takes about 200,000 a second on one
core, so the 10^7 of a full run take a minute. The money adds up here too: an envelope that is filled is sold out.
"""

import io
import itertools
import secrets
from collections.abc import Sequence
from datetime import date, timedelta

from envelope.split import SPLIT_VERSION, Split
from envelope.terms import Kind as TermsKind
from envelope.terms import Terms
from loadtest.bench.oneset import OneSet
from runtime import postgres
from runtime.clock import from_ms
from schema import names
from schema.names import TableKind
from sharding.ids import make_id, slot_of
from sharding.slots import TAILS

SHARE_FEN = 100
DAY_MS = 86_400_000
_HEADER = (
    "envelope_id", "slot", "sender", "kind", "split", "split_version", "total_fen", "shares", "greeting", "created_at",
    "opens_at", "expires_at", "seed", "create_key", "named",
)  # fmt: skip
_EVENING = 20 * 3_600
"""The second of the day from which on envelopes are drafted; days are filled up to then."""
_PER_SECOND = 10_000
_STEP = 61_843
"""Has no divisor in common with TAILS, so that no tail comes twice before all have come; random ones would collide."""
_drafted = itertools.count()
_CLAIM = ("envelope_id", "slot", "seq", "shares", "kind", "user_id", "amount_fen", "claimed_at")


def draft(
    day: date,
    count: int,
    shares: int,
    slots: int,
    now_ms: int,
    kind: TermsKind = TermsKind.EQUAL,
    split: Split = Split.EQUAL,
) -> list[Terms]:
    """Return terms of `count` new envelopes, their slots in turn, SHARE_FEN for every share.

    IDs are those of an evening with 10,000 creates a second.
    """
    return [
        Terms(
            envelope_id=make_id(day, _serial(_EVENING + made // _PER_SECOND, made * _STEP % TAILS), number % slots),
            sender="sender",
            kind=kind,
            split=split,
            split_version=SPLIT_VERSION,
            total_fen=shares * SHARE_FEN,
            count=shares,
            greeting="",
            created_at_ms=now_ms,
            opens_at_ms=now_ms,
            expires_at_ms=now_ms + DAY_MS,
            seed=secrets.token_bytes(32),
            create_key=secrets.token_hex(16),
        )
        for number, made in zip(range(count), _drafted, strict=False)
    ]


def _serial(second: int, tail: int) -> int:
    """Return the ten digits between day and slot, as a create of that second of the day gets them."""
    return second * TAILS + tail


async def copy_headers(one: OneSet, headers: Sequence[Terms]) -> None:
    """Write headers with their due entries: live envelopes that are not in memory until their first open."""
    connection = await postgres.connect(one.owner)
    try:
        rows = (
            (
                terms.envelope_id, slot_of(terms.envelope_id), terms.sender, terms.kind.value, terms.split.value,
                terms.split_version, terms.total_fen, terms.count, terms.greeting, from_ms(terms.created_at_ms),
                from_ms(terms.opens_at_ms), from_ms(terms.expires_at_ms), terms.seed.hex(), terms.create_key, False,
            )
            for terms in headers
        )  # fmt: skip
        await connection.copy_records_to_table("envelope", records=rows, columns=_HEADER)
        due = ((from_ms(terms.expires_at_ms), terms.envelope_id) for terms in headers)
        await connection.copy_records_to_table("due", records=due, columns=("expires_at", "envelope_id"))
    finally:
        await connection.close()


async def fill_days(
    one: OneSet,
    claims: int,
    *,
    days: int = 2,
    shares: int = 20,
    slots: Sequence[int] | None = None,
    users: int = 0,
) -> int:
    """Fill the last `days` days with sold-out envelopes, `claims` claims in all; returns how many were written.

    They go into all slots, or those given. `users`: how many there are, without an order that would compress; 0: the
    same ones in every envelope, which is faster.
    """
    connection = await postgres.connect(one.owner)
    written = 0
    slots = range(one.tables.slots) if slots is None else slots
    per_leaf = max(1, claims // (days * len(slots) * shares))
    try:
        for back in range(days):
            day = one.today - timedelta(days=back)
            at = from_ms(one.node.clock.now_ms() - back * DAY_MS).isoformat()
            for slot in slots:
                ids = [
                    make_id(day, _serial(_EVENING * number // per_leaf, secrets.randbelow(TAILS)), slot)
                    for number in range(per_leaf)
                ]
                for kind, columns, text in (
                    (TableKind.ENVELOPE, _HEADER, _header_lines(ids, slot, shares, at)),
                    (TableKind.CLAIM, _CLAIM, _claim_lines(ids, slot, shares, at, users)),
                ):
                    schema, _, leaf = names.leaf(kind, slot, day).partition(".")
                    source = io.BytesIO(text.encode("ascii"))
                    await connection.copy_to_table(leaf, schema_name=schema, source=source, columns=columns)
                written += per_leaf * shares
    finally:
        await connection.close()
    return written


async def adds_up(one: OneSet) -> bool:
    """Return whether no envelope gave more than it holds and every claim of a live envelope has its payout intent.

    Only a SET without a wallet keeps its intents. Filled envelopes have no due entry and no intent.
    """
    connection = await postgres.connect(one.owner)
    try:
        wrong: int = await connection.fetchval(
            "SELECT count(*) FROM (SELECT e.total_fen - sum(c.amount_fen) AS left_fen, count(*) AS opens, e.shares"
            " FROM claim c JOIN envelope e USING (envelope_id, slot) GROUP BY e.envelope_id, e.total_fen, e.shares) log"
            " WHERE left_fen < 0 OR opens > shares OR (opens = shares AND left_fen <> 0)"
        )
        lacking: int = await connection.fetchval(
            "SELECT (SELECT count(*) FROM claim c JOIN due d USING (envelope_id))"
            " - (SELECT coalesce(sum(cardinality(seqs)), 0) FROM payout_batch)"
        )
    finally:
        await connection.close()
    return wrong == 0 and lacking == 0


def _header_lines(ids: Sequence[int], slot: int, shares: int, at: str) -> str:
    more = f"{slot}\tsender\tequal\tequal\t{SPLIT_VERSION}\t{shares * SHARE_FEN}\t{shares}\t\t{at}\t{at}\t2092-12-31"
    return "".join(f"{one}\t{more}\t{one:064d}\t{one:032d}\tf\n" for one in ids)


def _claim_lines(ids: Sequence[int], slot: int, shares: int, at: str, users: int) -> str:
    if users:
        return "".join(
            f"{one}\t{slot}\t{seq}\t{shares}\topen\tuser-{(one * 7_919 + seq * 104_729) % users}\t{SHARE_FEN}\t{at}\n"
            for one in ids
            for seq in range(shares)
        )
    tails = [f"{slot}\t{seq}\t{shares}\topen\tuser-{seq}\t{SHARE_FEN}\t{at}\n" for seq in range(shares)]
    return "".join(f"{one}\t{tail}" for one in ids for tail in tails)
