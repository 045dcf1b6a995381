"""Slots: spread evenly, the same for a retry, and not to be aimed at without the key."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from errors import InvariantBroken
from sharding.slots import (
    EMBEDDED,
    PRODUCTION,
    Layout,
    database_name,
    database_of,
    place_for,
    slots_of,
    table_of,
)
from tests.sizes import sized

KEY = b"a key for tests only"


@given(st.text(), st.text() | st.text(st.characters(categories=["Cs"])))
def test_places_are_in_range_and_repeatable(sender, idempotency_key):
    """A retry finds the same slot and tail, both in range, for any strings."""
    slot, tail = place_for(sender, idempotency_key, KEY, EMBEDDED)
    assert (slot, tail) == place_for(sender, idempotency_key, KEY, EMBEDDED)
    assert slot in range(100)
    assert tail in range(10**5)


def test_places_never_change():
    """The place of a create is the same for ever: a change would lose the first attempt of a retry."""
    assert place_for("张三", "k-1", KEY, PRODUCTION) == (60, 29_564)


def test_fields_do_not_run_into_each_other():
    """("ab", "c") and ("a", "bc") are two envelopes, wherever the border or a separator stands."""
    pairs = [("ab", "c"), ("a", "bc"), ("", "abc"), ("abc", ""), ("a:b", "c"), ("a", "b:c"), ("1:1:a", "b")]
    assert len({place_for(*pair, KEY, PRODUCTION) for pair in pairs}) == len(pairs)


def test_the_place_depends_on_key_and_sender():
    """Another secret or sender gives another place."""
    places = {place_for(sender, "k", key, PRODUCTION) for sender in "ab" for key in (KEY, KEY[::-1])}
    assert len(places) == 4


@pytest.mark.parametrize("key", [b"", b"x" * 15, b"x" * 65])
def test_weak_and_overlong_keys_break_an_invariant(key):
    """A key of under 16 or over 64 bytes is not used."""
    with pytest.raises(InvariantBroken):
        place_for("a", "b", key, PRODUCTION)


@pytest.mark.parametrize("slots", [0, -10, 5, 15, 1_010])
def test_layouts_fill_whole_databases(slots):
    """Slots come in tens, up to a thousand."""
    with pytest.raises(InvariantBroken):
        Layout(slots)


def test_slots_name_database_and_table():
    """The first two digits of a slot are its database, the last its table."""
    assert [(database_of(slot), table_of(slot)) for slot in (0, 73, 999)] == [(0, 0), (7, 3), (99, 9)]
    assert [[*slots_of(xx)][::9] for xx in (0, 7, 99)] == [[0, 9], [70, 79], [990, 999]]
    assert {xx for xx in range(100) for slot in slots_of(xx) if database_of(slot) != xx} == set()
    assert (PRODUCTION.databases, EMBEDDED.databases) == (100, 10)
    assert (database_name(7), database_name(99)) == ("db_07", "db_99")


@pytest.mark.statistics
def test_slots_are_even_over_many_creates():
    """Creates of ordinary, sequential names fill 1,000 slots evenly (chi-square, 99.9 % both ways)."""
    creates = sized(1_000_000, 100_000)
    seen = Counter(place_for(f"user-{n // 50}", f"key-{n}", KEY, PRODUCTION)[0] for n in range(creates))
    chi_square = sum((seen[slot] - creates / 1_000) ** 2 / (creates / 1_000) for slot in range(1_000))
    # 999 degrees of freedom: mean 999, deviation 45. Too even would be as wrong as too uneven.
    assert 860 < chi_square < 1_144
