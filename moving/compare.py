"""Compares two copies of leaves: the number of rows, their fen and a hash of all rows, each side in one snapshot.

The hash is the sum, over all rows, of 64 bits of the row's MD5. It does not depend on the order, so no index is read,
and a row that is missing, extra or different on either side changes it.

A live move compares in two parts, because requests wait for the second one. Rows of envelopes and claims are only ever
added, so those older than SETTLED_S are compared before the cutover (`settle_old`). Within it the old rows are only
counted on both sides, and the young ones hashed; a leaf whose number of old rows has changed is hashed whole.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from errors import InvariantBroken
from moving.leaves import Leaf
from moving.limits import DIFFERENCES_NAMED, SETTLED_S
from runtime.postgres import Connection
from schema.names import TableKind

_FEN = {TableKind.ENVELOPE: "total_fen", TableKind.CLAIM: "amount_fen", TableKind.GUEST: "wrong_tries"}
_TIME = {TableKind.ENVELOPE: "created_at", TableKind.CLAIM: "claimed_at"}
"""Guests have no time and their rows change, so all of them count as young; there are few."""
_YOUNGEST = """SELECT greatest((SELECT max(claimed_at) FROM claim WHERE slot = ANY($1::smallint[])),
    (SELECT max(created_at) FROM envelope WHERE slot = ANY($1::smallint[])))"""


class Sum(NamedTuple):
    """What one leaf holds. `fen` sums totals, amounts or, for guests, wrong tries; `old` rows are not hashed."""

    rows: int
    fen: int
    hash: str
    old: int = 0


class Settled(NamedTuple):
    """How many rows of each leaf, up to `until`, were found equal on both sides."""

    until: datetime
    rows: dict[Leaf, int]


async def compare(
    source: Connection, target: Connection, leaves: Sequence[Leaf], settled: Settled | None = None
) -> dict[Leaf, Sum]:
    """Return what both sides hold; raises InvariantBroken `copies_are_equal`, naming leaves that differ.

    With `settled`, rows up to that instant are only counted; if their number has changed, the whole leaf is hashed.
    """
    after = settled.until if settled else None
    ours, theirs = await _both(sums(source, leaves, after=after), sums(target, leaves, after=after))
    if settled is not None:
        changed = [leaf for leaf in leaves if not ours[leaf].old == theirs[leaf].old == settled.rows[leaf]]
        whole = await _both(sums(source, changed), sums(target, changed))
        ours.update(whole[0])
        theirs.update(whole[1])
    different = [leaf for leaf in leaves if ours[leaf] != theirs[leaf]]
    if different:
        named = "; ".join(f"{leaf.name}: {ours[leaf]} and {theirs[leaf]}" for leaf in different[:DIFFERENCES_NAMED])
        raise InvariantBroken("copies_are_equal", f"{len(different)} of {len(leaves)} tables differ: {named}")
    return ours


async def settle_old(source: Connection, target: Connection, leaves: Sequence[Leaf], slots: Sequence[int]) -> Settled:
    """Compare rows SETTLED_S older than the youngest one, while more are being written; raises as `compare`."""
    youngest = await source.fetchval(_YOUNGEST, slots)
    until = (youngest or datetime(1970, 1, 2, tzinfo=UTC)) - timedelta(seconds=SETTLED_S)
    lasting = [leaf for leaf in leaves if leaf.kind in _TIME]
    ours, theirs = await _both(sums(source, lasting, until=until), sums(target, lasting, until=until))
    different = [leaf for leaf in lasting if ours[leaf] != theirs[leaf]]
    if different:
        names = ", ".join(leaf.name for leaf in different[:DIFFERENCES_NAMED])
        raise InvariantBroken("copies_are_equal", f"old rows of {len(different)} tables differ: {names}")
    return Settled(until, {leaf: ours[leaf].rows if leaf in ours else 0 for leaf in leaves})


async def sums(
    connection: Connection, leaves: Sequence[Leaf], *, until: datetime | None = None, after: datetime | None = None
) -> dict[Leaf, Sum]:
    """Return what each leaf holds, in one snapshot: rows up to `until`, or all rows, with a hash of those `after`."""
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
    """Await both sides at once; if one fails, the other has ended, too, on return, and its connection is free."""
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
    # If all leaves are of guests, no other part of the query names $1, and Postgres could not tell its type.
    where = where or ("WHERE $1::timestamptz IS NOT NULL" if after else "")
    hashed = f"sum(('x' || left(md5(l::text), 16))::bit(64)::bigint::numeric) FILTER (WHERE {young})"
    return (
        f"SELECT {number} AS number, count(*) AS rows, coalesce(sum({_FEN[leaf.kind]}), 0)::bigint AS fen, "  # noqa: S608 - digits
        f"coalesce({hashed}, 0)::text AS hash, count(*) FILTER (WHERE NOT ({young})) AS old FROM {leaf.name} l {where}"
    )


def total(found: dict[Leaf, Sum]) -> dict[str, int]:
    """Return a comparison's figures for the operator: rows by kind, and the fen of claims and envelopes."""
    figures: dict[str, int] = {}
    for leaf, one in found.items():
        figures[f"{leaf.kind.value}s"] = figures.get(f"{leaf.kind.value}s", 0) + one.rows
        if leaf.kind is not TableKind.GUEST:
            figures[f"{leaf.kind.value}_fen"] = figures.get(f"{leaf.kind.value}_fen", 0) + one.fen
    return figures


@contextlib.asynccontextmanager
async def one_snapshot(connection: Connection) -> AsyncIterator[None]:
    """Run the block's statements in one read-only snapshot."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        yield
