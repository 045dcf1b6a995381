"""Lists of envelopes cut into what one query may ask for."""

import itertools
from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from setnode.limits import LOAD_SLOTS
from setnode.partition_ranges import partition_ranges
from sharding.ids import make_id

DAYS = st.integers(0, 3).map(lambda n: date(2026, 2, 27) + timedelta(days=n))
IDS = st.lists(st.builds(make_id, DAYS, st.integers(0, 10**10 - 1), st.integers(0, 999)), max_size=200)


@given(IDS)
def test_every_position_is_in_one_part_of_one_day_and_few_slots(ids):
    """Nothing is lost or asked for twice, each part is within its bounds, and there are no more than need be."""
    parts = list(partition_ranges(ids))
    assert sorted(position for part in parts for position in part.positions) == list(range(len(ids)))
    for part in parts:
        assert all(part.low <= ids[position] < part.end for position in part.positions)
        assert part.slots == sorted({ids[position] % 1000 for position in part.positions})
        assert 1 <= len(part.slots) <= LOAD_SLOTS
    for one, other in itertools.pairwise(parts):
        assert one.low < other.low or (one.slots[-1] < other.slots[0] and len(one.slots) == LOAD_SLOTS)


def test_an_id_of_no_calendar_is_cut_like_any_other():
    """`due` may name what never was: that must not keep the others from being looked at."""
    (part,) = partition_ranges([9_999_990_000_000_000_007])
    assert part.slots == [7]
