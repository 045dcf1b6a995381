"""Decodes a row of `envelope` to its terms; used by every reader of headers."""

from typing import Any

from envelope.split import Split
from envelope.terms import Kind, Terms


def read_terms(row: Any, invited: frozenset[str] | None = None) -> Terms:
    """Return the terms of `row`, which has the columns of `envelope`, instants as `*_at_ms`; `invited` from `guest`.

    Raises ValueError, or TypeError, when a kind, split or seed cannot be read, or what every header has is missing.
    """
    if None in (row["greeting"], row["created_at_ms"], row["opens_at_ms"], row["expires_at_ms"], row["create_key"]):
        raise ValueError("it has no greeting, create key or time")
    if None in (row["sender"], row["total_fen"], row["shares"]):
        raise ValueError("it has no sender, total or shares")
    return Terms(
        envelope_id=row["envelope_id"],
        sender=row["sender"],
        kind=Kind(row["kind"]),
        split=Split(row["split"]),
        split_version=row["split_version"],
        total_fen=row["total_fen"],
        count=row["shares"],
        greeting=row["greeting"],
        created_at_ms=row["created_at_ms"],
        opens_at_ms=row["opens_at_ms"],
        expires_at_ms=row["expires_at_ms"],
        seed=bytes.fromhex(row["seed"]),
        create_key=row["create_key"],
        invited=invited,
        password_mac=row["password_mac"],
        min_fen=row["min_fen"],
        max_fen=row["max_fen"],
        seal=row["header_seal"],
    )
