"""Two copies of leaves compared both ways: rows, fen and a hash of all rows, each side at one snapshot.

The hash is the sum of 64 bits of every row's MD5: it does not hang on the order, so no index need be read, and a row
that is missing, extra or another on either side changes it. A million rows take about a second.

Where nobody may be kept waiting for that (a live move) it is done in two parts. Envelopes and claims are only ever
added, so what is older than some seconds is compared beforehand; later it is enough that there are still as many old
rows on both sides, and the hash is taken of the young ones.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from envelope.errors import InvariantBroken
from moving.leaves import Leaf
from moving.limits import SETTLED_S
from schema.names import Kind

_FEN = {Kind.ENVELOPE: "total_fen", Kind.CLAIM: "amount_fen", Kind.GUEST: "wrong_tries"}
_TIME = {Kind.ENVELOPE: "created_at", Kind.CLAIM: "claimed_at"}
"""Guests have none, and their rows change: they are all young, always. They are few."""
_MOST_NAMED = 5
_YOUNGEST = """SELECT greatest((SELECT max(claimed_at) FROM claim WHERE slot = ANY($1::smallint[])),
    (SELECT max(created_at) FROM envelope WHERE slot = ANY($1::smallint[])))"""


class Sum(NamedTuple):
    """What one leaf holds. `fen` is total, amount or, for guests, wrong tries; `old` rows are not in the hash."""

    rows: int
    fen: int
    hash: str
    old: int = 0


class Settled(NamedTuple):
    """Old rows, up to an instant, that were found equal on both sides: how many of each leaf."""

    until: datetime
    rows: dict[Leaf, int]


async def compare(source: Any, target: Any, leaves: Sequence[Leaf], settled: Settled | None = None) -> dict[Leaf, Sum]:
    """Return what both sides hold; raises InvariantBroken `copies_are_equal` with the leaves that differ.

    Of the rows that are `settled` it counts on the earlier comparison, unless there are more or fewer of them now.
    """
    after = settled.until if settled else None
    ours, theirs = await _both(sums(source, leaves, after=after), sums(target, leaves, after=after))
    if settled is not None:
        stirred = [leaf for leaf in leaves if not ours[leaf].old == theirs[leaf].old == settled.rows[leaf]]
        whole = await _both(sums(source, stirred), sums(target, stirred))
        ours.update(whole[0])
        theirs.update(whole[1])
    different = [leaf for leaf in leaves if ours[leaf] != theirs[leaf]]
    if different:
        named = "; ".join(f"{leaf.name}: {ours[leaf]} and {theirs[leaf]}" for leaf in different[:_MOST_NAMED])
        raise InvariantBroken("copies_are_equal", f"{len(different)} of {len(leaves)} tables differ: {named}")
    return ours


async def settle_old(source: Any, target: Any, leaves: Sequence[Leaf], slots: Sequence[int]) -> Settled:
    """Compare all rows but the youngest while others are being written; raises as `compare`."""
    youngest = await source.fetchval(_YOUNGEST, slots)
    until = (youngest or datetime(1970, 1, 2, tzinfo=UTC)) - timedelta(seconds=SETTLED_S)
    lasting = [leaf for leaf in leaves if leaf.kind in _TIME]
    ours, theirs = await _both(sums(source, lasting, until=until), sums(target, lasting, until=until))
    different = [leaf for leaf in lasting if ours[leaf] != theirs[leaf]]
    if different:
        names = ", ".join(leaf.name for leaf in different[:_MOST_NAMED])
        raise InvariantBroken("copies_are_equal", f"old rows of {len(different)} tables differ: {names}")
    return Settled(until, {leaf: ours[leaf].rows if leaf in ours else 0 for leaf in leaves})


async def sums(
    connection: Any, leaves: Sequence[Leaf], *, until: datetime | None = None, after: datetime | None = None
) -> dict[Leaf, Sum]:
    """Return what each leaf holds, all in one snapshot: rows `until` an instant, or all and a hash of those `after`."""
    if not leaves:
        return {}
    query = " UNION ALL ".join(
        _sum(number, leaf, until=until is not None, after=after is not None) for number, leaf in enumerate(leaves)
    )
    instant = until or after
    async with one_snapshot(connection):
        rows = await connection.fetch(query, *([] if instant is None else [instant]))
    return {leaves[row["number"]]: Sum(row["rows"], row["fen"], row["hash"], row["old"]) for row in rows}


async def _both(
    ours: Coroutine[Any, Any, dict[Leaf, Sum]], theirs: Coroutine[Any, Any, dict[Leaf, Sum]]
) -> tuple[dict[Leaf, Sum], dict[Leaf, Sum]]:
    """Await two sides at once; where one fails the other has ended, too, and its connection is free, on return."""
    try:
        async with asyncio.TaskGroup() as tasks:
            first, second = tasks.create_task(ours), tasks.create_task(theirs)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    return first.result(), second.result()


def _sum(number: int, leaf: Leaf, *, until: bool, after: bool) -> str:
    instant = _TIME.get(leaf.kind)
    young = f"{instant} > $1" if after and instant else "true"
    where = f"WHERE {instant} <= $1" if until else ""
    # A parameter that a query does not use has no type: guests alone would not name it.
    where = where or ("WHERE $1::timestamptz IS NOT NULL" if after else "")
    hashed = f"sum(('x' || left(md5(l::text), 16))::bit(64)::bigint::numeric) FILTER (WHERE {young})"
    return (
        f"SELECT {number} AS number, count(*) AS rows, coalesce(sum({_FEN[leaf.kind]}), 0)::bigint AS fen, "  # noqa: S608 - digits
        f"coalesce({hashed}, 0)::text AS hash, count(*) FILTER (WHERE NOT ({young})) AS old FROM {leaf.name} l {where}"
    )


def total(found: dict[Leaf, Sum]) -> dict[str, int]:
    """Return the figures of a comparison: rows by kind and the fen of claims and envelopes."""
    figures: dict[str, int] = {}
    for leaf, one in found.items():
        figures[f"{leaf.kind.value}s"] = figures.get(f"{leaf.kind.value}s", 0) + one.rows
        if leaf.kind is not Kind.GUEST:
            figures[f"{leaf.kind.value}_fen"] = figures.get(f"{leaf.kind.value}_fen", 0) + one.fen
    return figures


@contextlib.asynccontextmanager
async def one_snapshot(connection: Any) -> AsyncIterator[None]:
    """Let all statements of the block see one snapshot and write nothing."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        yield
