"""Reads envelopes with their logs and guests out of rows: from the hot tables, a cold day's own, or the archive."""

from datetime import date
from functools import lru_cache
from typing import Any

from envelope.claim_log import ClaimLog
from envelope.errors import HongbaoError, InvariantBroken
from schema import names
from schema.headers import read_terms
from schema.names import Kind
from setnode import queries

LOAD = queries.read("load_envelopes")
_SOURCES = {Kind.ENVELOPE: "FROM envelope e", Kind.CLAIM: "FROM claim WHERE", Kind.GUEST: "FROM guest WHERE"}


@lru_cache(maxsize=64)
def query_of(day: date) -> str:
    """Return the same query over the tables of a day that is no longer under the hot ones."""
    query = LOAD
    for kind, source in _SOURCES.items():
        word, rest = source.split()[1:]
        own = f"FROM public.{names.day_table(kind, day)} AS {rest if rest != 'WHERE' else word + ' WHERE'}"
        query = query.replace(source, own)
    return query


def restore(row: Any) -> ClaimLog | InvariantBroken:
    """Return the log of a row of `load_envelopes`, replayed by the rules that wrote it; a broken one as its error."""
    try:
        log = ClaimLog(read_terms(row, _invited(row)))
        columns = [row[name] or () for name in ("seqs", "kinds", "users", "amounts", "times")]
        log.restore(zip(*columns, strict=True))
    except InvariantBroken as broken:
        return broken
    except (HongbaoError, ValueError) as error:
        # One header that nobody can read must not keep its neighbours in the same query from being read.
        return InvariantBroken("header_is_readable", f"envelope {row['envelope_id']}: {error}")
    tries = {user: count for user, count in zip(row["guests"] or (), row["tries"] or (), strict=True) if count}
    log.wrong_tries = tries or None
    return log


def _invited(row: Any) -> frozenset[str] | None:
    if not row["named"]:
        return None
    guests = zip(row["guests"] or (), row["invitations"] or (), strict=True)
    return frozenset(user for user, is_invited in guests if is_invited)
