"""The order in which a batch of claims is written: leaf by leaf, and in each as its indexes stand."""

from hypothesis import given
from hypothesis import strategies as st

from setnode.commit.store import by_leaf
from sharding.slots import MAX_SLOTS

IDS = st.builds(
    lambda day, serial, slot: (26_112_100 + 100 * day) * 10**11 + serial * MAX_SLOTS + slot,
    st.integers(0, 1), st.integers(0, 3), st.integers(0, 3),
)  # fmt: skip


@given(st.lists(IDS, max_size=40))
def test_claims_lie_as_their_leaves_and_indexes_do(ids):
    """By slot, then by ID, which begins with the day: no leaf is left before it is done. Nothing is lost or doubled."""
    claims = [(envelope_id, seq, 20, "open", f"u{seq}", 1) for seq, envelope_id in enumerate(ids)]
    ordered = by_leaf(claims)
    assert [(one[0] % MAX_SLOTS, one[0]) for one in ordered] == sorted((one % MAX_SLOTS, one) for one in ids)
    assert sorted(ordered) == sorted(claims)


@given(st.lists(IDS, max_size=40))
def test_claims_of_an_envelope_keep_their_order(ids):
    """The first claim of an envelope stays before its second."""
    claims = [(envelope_id, seq, 20, "open", f"u{seq}", 1) for seq, envelope_id in enumerate(ids)]
    ordered = by_leaf(claims)
    for envelope_id in ids:
        assert [one for one in ordered if one[0] == envelope_id] == [one for one in claims if one[0] == envelope_id]
