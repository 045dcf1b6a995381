"""Envelope IDs: 19 digits from which day, serial and slot come back, and nothing else is taken for one."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from errors import InvariantBroken, Refused
from sharding.ids import (
    business_date,
    candidate_ids,
    check_not_future,
    day_of,
    end_id,
    first_id,
    first_id_at,
    format_id,
    make_id,
    parse_id,
    serial_of,
    slot_of,
)
from sharding.slots import EMBEDDED, PRODUCTION

days = st.dates(date(2010, 1, 1), date(2092, 12, 31))
serials = st.integers(0, 10**10 - 1)
slots = st.integers(0, 999)


@given(days, serials, slots)
def test_round_trip(day, serial, slot):
    """Day, serial and slot come back from the ID, also by way of its text."""
    envelope_id = make_id(day, serial, slot)
    assert (day_of(envelope_id), serial_of(envelope_id), slot_of(envelope_id)) == (day, serial, slot)
    assert parse_id(format_id(envelope_id), PRODUCTION) == envelope_id


@given(days, serials, slots)
def test_an_id_reads_as_its_parts(day, serial, slot):
    """An ID is 19 digits, YYMMDD, serial and slot, and fits an int64."""
    envelope_id = make_id(day, serial, slot)
    assert format_id(envelope_id) == f"{day:%y%m%d}{serial:010d}{slot:03d}"
    assert envelope_id < 2**63


@given(days, serials, slots)
def test_an_id_lies_within_the_bounds_of_its_day_only(day, serial, slot):
    """The half-open range of a day holds its IDs, and the ranges of two days never meet."""
    assert first_id(day) <= make_id(day, serial, slot) < end_id(day)
    if day < date(2092, 12, 31):
        assert end_id(day) <= first_id(day + timedelta(days=1))


def test_an_id_reads_as_the_second_of_its_create():
    """Day and clock of the zone, then the tail: what is made in one second lies between two that were not."""
    instant = datetime(2026, 11, 23, 16, 5, 59, tzinfo=UTC)
    assert first_id_at(instant) == 261124_00359_00000_000
    assert first_id_at(instant, ZoneInfo("UTC")) == 261123_57959_00000_000
    ids = candidate_ids(first_id_at(instant), 73, 12_345, 3)
    assert [format_id(one) for one in ids] == [f"26112400359{tail:05d}073" for tail in (12_345, 12_346, 12_347)]
    assert first_id_at(instant + timedelta(seconds=1)) == 261124_00360_00000_000


@given(st.integers(0, 999), st.integers(0, 10**5 - 1), st.integers(1, 8))
def test_candidates_stay_in_their_second_and_slot(slot, tail, count):
    """As many as were asked for, all different, and behind the last tail comes the first."""
    first = first_id_at(datetime(2026, 11, 23, 15, 59, 59, tzinfo=UTC))
    ids = candidate_ids(first, slot, tail, count)
    assert [(day_of(one), serial_of(one), slot_of(one)) for one in ids] == [
        (date(2026, 11, 23), 86_399 * 10**5 + (tail + number) % 10**5, slot) for number in range(count)
    ]


def test_the_last_bound_fits_an_int64():
    """Also the open end of the last day can be a partition bound."""
    assert end_id(date(2092, 12, 31)) < 2**63


GOOD = "2511211234567890123"


@pytest.mark.parametrize(
    "text",
    [
        "",
        GOOD[:-1],
        GOOD + "0",
        " " + GOOD[1:],
        GOOD[:-1] + " ",
        GOOD[:-1] + "\n",
        "+" + GOOD[1:],
        "-" + GOOD[1:],
        GOOD[:9] + "_" + GOOD[10:],
        GOOD[:9] + "." + GOOD[10:],
        GOOD[:9] + "a" + GOOD[10:],
        GOOD[:-1] + "٣",  # an Arabic three: str.isdigit says yes
        GOOD[:-1] + "²",
        GOOD.translate({ord("1"): "\uff11"}),  # full-width digits
        "0" + GOOD[1:],
        "0912311234567890123",  # 2009 would have 18 digits as a number
        "9301011234567890123",  # 2093 is above 2^63 - 1
        "9999999999999999999",
        GOOD.encode(),
        int(GOOD),
        float(GOOD),
        None,
        True,
        [GOOD],
    ],
)
def test_what_is_no_id_is_refused(text):
    """Anything but a string of 19 ASCII digits with a possible year is malformed."""
    with pytest.raises(Refused) as caught:
        parse_id(text, PRODUCTION)
    assert caught.value.code == "malformed_envelope_id"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (GOOD[:-1], "exactly 19 digits, 0 to 9"),
        (GOOD[:-1] + "٣", "exactly 19 digits, 0 to 9"),
        ("9912311234567890007", "its year, 10 to 92 for 2010 to 2092; this one starts with 99."),
        ("9999999999999999999", "its year, 10 to 92 for 2010 to 2092; this one starts with 99."),
        ("0912311234567890007", "this one starts with 09."),
        ("2502301234567890007", "starts with 250230, as YYMMDD a day that no calendar has"),
        ("9213011234567890007", "starts with 921301, as YYMMDD a day that no calendar has"),
    ],
)
def test_a_refusal_says_what_is_wrong_with_this_one(text, says):
    """The sentence is true of the text that was sent: 31 December 2099 is a day, but none an ID can have."""
    with pytest.raises(Refused) as caught:
        parse_id(text, PRODUCTION)
    assert says in caught.value.detail


@given(st.one_of(st.text(max_size=30), st.text(st.characters(categories=["Nd"]), min_size=19, max_size=19)))
def test_any_text_is_an_id_or_refused(text):
    """Whatever a client sends, the answer is an int with the same digits or a refusal with a code."""
    try:
        assert format_id(parse_id(text, PRODUCTION)) == text
    except Refused as refused:
        assert refused.code in {"malformed_envelope_id", "impossible_day", "unknown_slot"}  # noqa: PT017


@pytest.mark.parametrize("day", ["250230", "250229", "251301", "250001", "250100", "250431", "100000"])
def test_days_that_never_were_are_refused(day):
    """30 February, month 13 and day 0 are impossible days, asked once or twice."""
    for _ in range(2):
        with pytest.raises(Refused) as caught:
            parse_id(day + GOOD[6:], PRODUCTION)
        assert caught.value.code == "impossible_day"


def test_leap_days_are_days():
    """29 February of a leap year is a day."""
    assert day_of(parse_id("240229" + GOOD[6:], PRODUCTION)) == date(2024, 2, 29)


def test_slots_of_another_layout_are_refused():
    """With 100 slots there is no slot 100, with 1,000 there is."""
    assert parse_id(GOOD[:-3] + "099", EMBEDDED)
    assert parse_id(GOOD[:-3] + "100", PRODUCTION)
    with pytest.raises(Refused) as caught:
        parse_id(GOOD[:-3] + "100", EMBEDDED)
    assert caught.value.code == "unknown_slot"


def test_ids_of_days_to_come_are_refused():
    """An ID of today or before may exist, one of tomorrow cannot."""
    envelope_id = make_id(date(2025, 12, 1), 0, 0)
    check_not_future(envelope_id, date(2025, 12, 1))
    check_not_future(envelope_id, date(2026, 1, 1))
    with pytest.raises(Refused) as caught:
        check_not_future(envelope_id, date(2025, 11, 30))
    assert caught.value.code == "future_envelope_id"


@pytest.mark.parametrize(
    "parts",
    [
        (date(2009, 12, 31), 0, 0),
        (date(2093, 1, 1), 0, 0),
        (date(2025, 1, 1), 10**10, 0),
        (date(2025, 1, 1), -1, 0),
        (date(2025, 1, 1), 0, 1000),
        (date(2025, 1, 1), 0, -1),
    ],
)
def test_parts_out_of_range_make_no_id(parts):
    """A part that would spill into its neighbour breaks an invariant instead."""
    with pytest.raises(InvariantBroken):
        make_id(*parts)


def test_the_business_day_begins_in_shanghai():
    """The business day changes at 16:00 UTC, or at the midnight of the zone that is set."""
    before, after = (datetime(2025, 11, 21, hour, minute, tzinfo=UTC) for hour, minute in ((15, 59), (16, 0)))
    assert business_date(before) == date(2025, 11, 21)
    assert business_date(after) == date(2025, 11, 22)
    assert business_date(after, ZoneInfo("UTC")) == date(2025, 11, 21)


def test_a_naive_instant_has_no_business_day():
    """An instant without a zone would mean the machine's own, so it is refused."""
    with pytest.raises(InvariantBroken):
        business_date(datetime(2025, 11, 21, 12))  # noqa: DTZ001
