"""Pages: a cursor leads on in its own list only, and nothing else is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import MultiDict

from errors import Refused
from gateway.parsing.paging import check_names, read_cursor, read_page, write_cursor


@given(st.sampled_from(["entries", "sent", "received"]), st.integers(1, 2**63 - 1))
def test_round_trip(listing, before):
    """A cursor comes back as the row it stands for."""
    assert read_cursor(listing, write_cursor(listing, before)) == before


@pytest.mark.parametrize(
    "cursor",
    [
        *("", "0", "abc", "é", "\ud800", "=" * 8, "A" * 1000, write_cursor("sent", 5), write_cursor("entries", 0)),
        *(write_cursor("entries", 2**63), write_cursor("entries", -5), write_cursor("entries", 5) + "="),
    ],
)
def test_what_is_no_cursor_of_this_list(cursor):
    """Anything we did not write for this list is refused."""
    with pytest.raises(Refused, match="malformed_cursor"):
        read_cursor("entries", cursor)


@pytest.mark.parametrize("limit", ["", "0", "101", "-1", "1.0", "x", "٣", "1e1", " 5", "9" * 5000])
def test_limits_out_of_range(limit):
    """A limit is 1 to 100 in ASCII digits."""
    with pytest.raises(Refused, match="malformed_limit"):
        read_page("sent", MultiDict(limit=limit))


def test_defaults_and_repeats():
    """Without parameters a page begins at the top with 20; a parameter said twice is refused."""
    assert read_page("sent", MultiDict()) == ("sent", 0, 20)
    with pytest.raises(Refused, match="repeated_parameter"):
        read_page("sent", MultiDict([("limit", "1"), ("limit", "2")]))


@pytest.mark.parametrize("name", ["limt", "Limit", "limit ", "", "offset", "x" * 5000])
def test_other_parameters(name):
    """A parameter that a list does not have is refused, not ignored; the sentence stays short."""
    check_names(MultiDict(limit="1", cursor="x", role="sent"), "role")
    with pytest.raises(Refused, match="unknown_parameter") as caught:
        check_names(MultiDict([("limit", "1"), (name, "1")]), "role")
    assert "limit, cursor, role" in caught.value.detail
    assert len(caught.value.detail) < 150


def test_walking_a_list():
    """Following next_cursor sees every row once, in order, and ends."""
    rows = [[number, f"row {number}"] for number in range(45, 0, -1)]
    seen, query = [], MultiDict(limit="20")
    for _ in range(10):
        page = read_page("sent", query)
        below = [row for row in rows if page.before == 0 or row[0] < page.before][: page.limit]
        body = page.body(below, lambda row: {"text": row[1]})
        seen += body["items"]
        if body["next_cursor"] is None:
            break
        query = MultiDict(limit="20", cursor=body["next_cursor"])
    assert seen == [{"text": row[1]} for row in rows]
