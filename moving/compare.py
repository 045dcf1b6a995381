"""Two copies of leaves compared both ways: rows, fen and a hash of all rows, each side at one snapshot.

The hash is the sum of 64 bits of every row's MD5: it does not hang on the order, so no index need be read, and a row
that is missing, extra or another on either side changes it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from envelope.errors import InvariantBroken
from moving.leaves import Leaf
from schema.names import Kind

_FEN = {Kind.ENVELOPE: "total_fen", Kind.CLAIM: "amount_fen", Kind.GUEST: "wrong_tries"}
_MOST_NAMED = 5


class Sum(NamedTuple):
    """What one leaf holds. `fen` is total, amount or, for guests, wrong tries."""

    rows: int
    fen: int
    hash: str


async def compare(source: Any, target: Any, leaves: Sequence[Leaf]) -> dict[Leaf, Sum]:
    """Return what both sides hold; raises InvariantBroken `copies_are_equal` with the leaves that differ."""
    ours, theirs = await asyncio.gather(sums(source, leaves), sums(target, leaves))
    different = [leaf for leaf in leaves if ours[leaf] != theirs[leaf]]
    if different:
        named = "; ".join(f"{leaf.name}: {ours[leaf]} and {theirs[leaf]}" for leaf in different[:_MOST_NAMED])
        raise InvariantBroken("copies_are_equal", f"{len(different)} of {len(leaves)} tables differ: {named}")
    return ours


async def sums(connection: Any, leaves: Sequence[Leaf]) -> dict[Leaf, Sum]:
    """Return what each leaf holds, all in one snapshot."""
    if not leaves:
        return {}
    query = " UNION ALL ".join(
        f"SELECT {number} AS number, count(*) AS rows, coalesce(sum({_FEN[leaf.kind]}), 0)::bigint AS fen, "  # noqa: S608 - digits
        f"coalesce(sum(('x' || left(md5(l::text), 16))::bit(64)::bigint::numeric), 0)::text AS hash FROM {leaf.name} l"
        for number, leaf in enumerate(leaves)
    )
    async with one_snapshot(connection):
        rows = await connection.fetch(query)
    return {leaves[row["number"]]: Sum(row["rows"], row["fen"], row["hash"]) for row in rows}


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
