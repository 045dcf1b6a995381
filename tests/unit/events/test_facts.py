"""The events of an entry: which, in which order, with which names and numbers."""

import json
from datetime import UTC, datetime

from events.facts import CLAIMS, CREATED, REFUNDS, STUCK, Entry, events_of
from wire.cloud_events import TYPES

AT = datetime(2026, 11, 21, 1, 23, 45, 678_900, tzinfo=UTC)
ONE, TWO = 2611210123456789073, 2611210123456789074


def entry(what, envelope_ids, seqs, *, shares=None, kinds=None, users=None, fen=None, notes=None):
    number = len(envelope_ids)
    return Entry(
        "1", 1, what, AT, AT, envelope_ids, seqs, shares, kinds, users or ["u"] * number, fen or [5] * number, notes
    )


def told(one):
    return [json.loads(event.body) for event in events_of(one)]


def test_claims_of_several_envelopes_in_one_commit():
    """Opens are told in the order of the entry; after the last share comes the end; a close says what goes back."""
    found = told(
        entry(CLAIMS, [ONE, ONE, TWO], [1, 2, 4], shares=[3, 3, 9], kinds=["open", "open", "expired"], fen=[10, 20, 70])
    )
    assert [(one["id"], one["type"], one["sequence"]) for one in found] == [
        (f"{ONE}.opened.1", "share.opened", "0000000002"),
        (f"{ONE}.opened.2", "share.opened", "0000000003"),
        (f"{ONE}.sold_out", "envelope.sold_out", "0000000004"),
        (f"{TWO}.closed", "envelope.closed", "0000000005"),
    ]
    assert [one["data"]["left"] for one in found[:2]] == [1, 0]
    assert found[3]["data"] == {
        "envelope_id": str(TWO), "reason": "expired", "opened": 4, "refund_fen": 70,
        "closed_at": "2026-11-21T01:23:45.678Z",
    }  # fmt: skip


def test_the_numbers_of_a_life_grow():
    """From the header over opens and the close to the refund; the same facts always have the same IDs."""
    terms = json.dumps(
        {
            "greeting": "福", "split": "double_mean", "named": False, "created_at": "2026-11-21T01:00:00+00:00",
            "opens_at": "2026-11-21T00:59:59+00:00", "expires_at": "2026-11-22T01:00:00+00:00",
        }
    )  # fmt: skip
    life = [
        entry(CREATED, [ONE], [0], shares=[2], kinds=["lucky"], users=["sender"], fen=[100], notes=[terms]),
        entry(CLAIMS, [ONE], [0], shares=[2], kinds=["open"]),
        entry(CLAIMS, [ONE], [1], shares=[2], kinds=["canceled"], users=[""]),
        entry(REFUNDS, [ONE], [1], users=["sender"], fen=[60]),
    ]
    found = [one for entry_ in life for one in told(entry_)]
    numbers = [one["sequence"] for one in found]
    assert numbers == sorted(set(numbers))
    assert found == [one for entry_ in life for one in told(entry_)]
    assert found[0]["data"]["opens_at"] == "2026-11-21T01:00:00.000Z"
    assert found[-1]["data"]["order_no"] == f"{ONE}.1"


def test_a_payout_that_is_stuck_again_is_another_event():
    """The ID says when; it has no place among the envelope's facts."""
    first = entry(STUCK, [ONE], [3], notes=['{"reason": "closed", "attempts": 9}'])
    again = first._replace(at=AT.replace(hour=2))
    (one,), (two,) = told(first), told(again)
    assert one["id"] != two["id"]
    assert "sequence" not in one
    assert one["data"]["attempts"] == 9


def test_every_type_is_made():
    """Nothing in the catalogue is only a promise."""
    made = {
        *(one["type"] for one in told(entry(CLAIMS, [ONE, TWO], [0, 0], shares=[1, 2], kinds=["open", "canceled"]))),
        *(one["type"] for one in told(entry(REFUNDS, [ONE], [0]))),
        *(one["type"] for one in told(entry(STUCK, [ONE], [0], notes=['{"reason": "", "attempts": 1}']))),
        "envelope.created",
    }
    assert made == set(TYPES)
