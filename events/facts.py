"""Entries of `event_log`, and the events that follow from each.

An entry is what one statement wrote. Its events are in the order of its rows; events of one envelope are in the order
in which things happened, because an envelope never has two transactions in flight.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from envelope.outcomes import Entry as Claim
from events.event import Event, event
from wire.cloud_events import (
    CloudEvent,
    Data,
    EnvelopeClosed,
    EnvelopeCreated,
    EnvelopeSoldOut,
    PayoutStuck,
    RefundPaid,
    ShareOpened,
)
from wire.orders import payout_order

CREATED, CLAIMS, REFUNDS, STUCK = "created", "claims", "refunds", "stuck"


class Entry(NamedTuple):
    """One row of `event_log`: arrays of one length, and when its facts happened and were written."""

    xid: str
    entry_id: int
    what: str
    at: datetime
    written_at: datetime
    envelope_ids: list[int]
    seqs: list[int]
    shares: list[int] | None
    kinds: list[str] | None
    user_ids: list[str]
    amounts_fen: list[int]
    notes: list[str] | None


class _Terms(msgspec.Struct):
    """The note of a header."""

    greeting: str
    split: str
    named: bool
    created_at: datetime
    opens_at: datetime
    expires_at: datetime


class _Stuck(msgspec.Struct):
    """The note of a stuck payout."""

    reason: str
    attempts: int


_read_terms = msgspec.json.Decoder(_Terms).decode
_read_stuck = msgspec.json.Decoder(_Stuck).decode


def events_of(entry: Entry) -> Iterator[Event]:
    """Yield the events of an entry, in order."""
    return _MAKE[entry.what](entry)


def _created(entry: Entry) -> Iterator[Event]:
    rows = zip(
        entry.envelope_ids, _given(entry.shares), _given(entry.kinds), entry.user_ids, entry.amounts_fen,
        _given(entry.notes), strict=True,
    )  # fmt: skip
    for envelope_id, count, kind, sender, total_fen, note in rows:
        terms = _read_terms(note)
        created = rfc3339(terms.created_at)
        data = EnvelopeCreated(
            str(envelope_id), sender, kind, terms.split, total_fen, count, terms.greeting, terms.named, created,
            rfc3339(max(terms.opens_at, terms.created_at)), rfc3339(terms.expires_at),
        )  # fmt: skip
        yield _event(envelope_id, "created", 0, data, created)


def _claims(entry: Entry) -> Iterator[Event]:
    at = rfc3339(entry.at)
    rows = zip(
        entry.envelope_ids, entry.seqs, _given(entry.shares), _given(entry.kinds), entry.user_ids, entry.amounts_fen,
        strict=True,
    )  # fmt: skip
    for envelope_id, seq, count, kind, user, fen in rows:
        name = str(envelope_id)
        if kind == Claim.OPEN:
            yield _event(
                envelope_id, f"opened.{seq}", seq + 1, ShareOpened(name, seq, user, fen, count - seq - 1, at), at
            )
            if seq == count - 1:
                yield _event(envelope_id, "sold_out", count + 1, EnvelopeSoldOut(name, count, at), at)
        else:
            yield _event(envelope_id, "closed", seq + 1, EnvelopeClosed(name, kind, seq, fen, at), at)


def _refunds(entry: Entry) -> Iterator[Event]:
    at = rfc3339(entry.at)
    for envelope_id, seq, user, fen in zip(
        entry.envelope_ids, entry.seqs, entry.user_ids, entry.amounts_fen, strict=True
    ):
        data = RefundPaid(str(envelope_id), user, fen, payout_order(envelope_id, seq), at)
        yield _event(envelope_id, "refunded", seq + 2, data, at)


def _stuck(entry: Entry) -> Iterator[Event]:
    at = rfc3339(entry.at)
    rows = zip(
        entry.envelope_ids, entry.seqs, entry.user_ids, entry.amounts_fen, _given(entry.notes), strict=True
    )  # fmt: skip
    for envelope_id, seq, user, fen, note in rows:
        stuck = _read_stuck(note)
        data = PayoutStuck(
            str(envelope_id), seq, user, fen, payout_order(envelope_id, seq), stuck.attempts, stuck.reason, at
        )
        # It may be stuck again after an operator has driven it again: another event.
        yield _event(envelope_id, f"stuck.{seq}.{int(entry.at.timestamp() * 1000)}", None, data, at)


_MAKE = {CREATED: _created, CLAIMS: _claims, REFUNDS: _refunds, STUCK: _stuck}


def _event(envelope_id: int, what: str, sequence: int | None, data: Data, at: str) -> Event:
    name = str(envelope_id)
    cloud = CloudEvent(
        id=f"{name}.{what}",
        type=data.TYPE,
        subject=name,
        time=at,
        partitionkey=name,
        sequence="" if sequence is None else f"{sequence:010d}",
        data=data,
    )
    return event(envelope_id, cloud)


def _given(column: list[Any] | None) -> list[Any]:
    return [] if column is None else column


def rfc3339(at: datetime) -> str:
    """Write an instant as RFC 3339 in UTC with milliseconds."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
