"""Turns rows of `load_envelopes` into claim logs: from the hot tables, a cold day's own tables, or the archive."""

from datetime import date
from functools import lru_cache
from typing import Any

from envelope.claim_log import ClaimLog
from errors import InvariantBroken
from runtime import sql
from schema import names
from schema.headers import read_terms
from schema.names import TableKind
from setnode.header_seal import HeaderSeal
from setnode.limits import COLD_QUERIES

LOAD = sql.read("setnode", "load_envelopes")
ALL_SHARES = 1 << 62
"""What a query that reads one envelope gives for the shares that may be read: it is read in any case."""
_SOURCES = {
    TableKind.ENVELOPE: ("FROM envelope WHERE", "AS envelope WHERE"),
    TableKind.CLAIM: ("FROM claim WHERE", "AS claim WHERE"),
    TableKind.GUEST: ("FROM guest WHERE", "AS guest WHERE"),
}
"""What `load_envelopes` reads from, and the alias under which a day's own table takes its place."""


@lru_cache(maxsize=COLD_QUERIES)
def query_of(day: date) -> str:
    """Return `load_envelopes` over the tables of a day that are no longer attached to the hot ones."""
    query = LOAD
    for kind, (source, alias) in _SOURCES.items():
        query = query.replace(source, f"FROM public.{names.day_table(kind, day)} {alias}")
    return query


def restore(row: Any, seal: HeaderSeal | None = None) -> ClaimLog | InvariantBroken:
    """Return the log of a row, replayed by the rules that wrote it; a broken log, or header, is returned as its error.

    Without `seal` the header's seal is not checked: rows of a closed day are proven by the register.
    """
    try:
        log = ClaimLog(read_terms(row, _invited(row)))
        if seal is not None:
            seal.check(log.terms)
        columns = [row[name] or () for name in ("seqs", "kinds", "users", "amounts", "times")]
        log.restore(zip(*columns, strict=True))
        tries = {user: count for user, count in zip(row["guests"] or (), row["tries"] or (), strict=True) if count}
        log.restore_wrong_tries(tries)
    except InvariantBroken as broken:
        return broken
    except Exception as error:  # noqa: BLE001 - of any kind: rows edited by hand may hold anything
        # Returned, not raised: one unreadable row must not fail the other envelopes of its query.
        return InvariantBroken("header_is_readable", f"envelope {row['envelope_id']}: {type(error).__name__}: {error}")
    return log


def _invited(row: Any) -> frozenset[str] | None:
    if not row["named"]:
        return None
    guests = zip(row["guests"] or (), row["invitations"] or (), strict=True)
    return frozenset(user for user, is_invited in guests if is_invited)
