"""Decisions about switches: merged in any order they give the same, and the latest about each name counts."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from switches import file as switch_file
from switches.decisions import decide, merge, on
from switches.file import Published, beside
from switches.switch import LONGEST, Closes, Switch

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


def made(closes: Closes = Closes.CREATES, *, minutes_ago: int = 0, minutes: int = 60, reason: str = "r") -> Switch:
    since = NOW - timedelta(minutes=minutes_ago)
    return Switch(closes=closes, owner="op", reason=reason, since=since, until=since + timedelta(minutes=minutes))


decisions = st.lists(
    st.builds(
        made,
        st.sampled_from(Closes),
        minutes_ago=st.integers(0, 3),
        minutes=st.integers(0, 3),
        reason=st.sampled_from("ab"),
    ),
    max_size=6,
)


@given(decisions, decisions, decisions)
def test_the_order_of_merging_does_not_matter(one: list[Switch], two: list[Switch], three: list[Switch]) -> None:
    """Nor how often a list comes: databases and hosts are heard of in any order."""
    all_ = merge(one, two, three)
    assert all_ == merge(merge(three, one), merge(two, one)) == merge(all_, two)
    assert len({each.name for each in all_}) == len(all_)


@given(decisions, decisions)
def test_what_is_closed_or_opened_stands_against_any_older_list(before: list[Switch], older: list[Switch]) -> None:
    """Whatever else was known: what is decided on top of it is not undone by it."""
    known = merge(before, older)
    closed = decide(known, lambda old: [*old, made(Closes.LISTS, reason="mine")], NOW)
    assert any(one.reason == "mine" for one in on(merge(closed, before, older), NOW))
    opened = decide(closed, lambda old: [one for one in old if one.closes != Closes.LISTS], NOW)
    assert Closes.LISTS not in {one.closes for one in on(merge(closed, before, opened, older), NOW)}


def test_a_decision_is_forgotten_once_no_other_of_its_moment_can_be_on() -> None:
    """A switch is on for LONGEST at most."""
    opened = decide([made()], lambda _: [], NOW)
    assert [(one.name, one.until) for one in opened] == [("creates", NOW)]
    assert decide(opened, lambda old: old, NOW + LONGEST) == []
    assert decide([made(minutes=1)], lambda old: old, NOW + timedelta(hours=1)) == [made(minutes=1)]


def test_the_file_takes_versions_in_any_order(tmp_path: Path) -> None:
    """An older one undoes nothing in it; a damaged one is replaced; what was opened is not shown."""
    path = beside(tmp_path / "topology.json")
    closed = [made(minutes_ago=5), made(Closes.VIEWS, minutes_ago=5)]
    opened = decide(closed, lambda old: old[:1], NOW)
    assert switch_file.adopt(path, switch_file.as_text(opened, 2_000), 2_000)
    assert not switch_file.adopt(path, switch_file.as_text(closed, 1_000), 1_000)
    assert not switch_file.adopt(path, switch_file.as_text(opened, 2_000), 2_000)
    assert switch_file.load(path) == closed[:1]
    path.write_text("{")
    assert switch_file.adopt(path, switch_file.as_text(closed, 1_000), 1_000)
    assert switch_file.load(path) == closed


def test_a_text_of_the_release_before_counts_if_it_is_newer() -> None:
    """It says only what is on: what it leaves out of a later version was opened, and of an earlier one was not."""
    ours = Published(2_000, merges=True, decisions=[made(), made(Closes.VIEWS)])
    for version, left in ((2_001, ["lists"]), (1_999, ["creates", "views"]), (2_000, ["creates", "views"])):
        theirs = Published(version, merges=False, decisions=[made(Closes.LISTS)])
        found = switch_file.combine([theirs, ours])
        assert (found.version, [one.name for one in found.decisions]) == (max(version, 2_000), left)


def test_a_text_has_the_shape_that_the_release_before_reads(tmp_path: Path) -> None:
    """Nothing in it is refused by a strict reader of switches, or taken for one that is on."""
    text = switch_file.as_text([made()], 3_000)
    raw = msgspec.json.decode(text)
    assert raw.keys() == {"version", "switches"}
    taken = msgspec.convert(raw["switches"], list[Switch])
    assert [one.name for one in on(taken, NOW)] == ["creates"]
    path = tmp_path / "switches.json"
    path.write_text(text)
    assert switch_file.kept(path) == Published(3_000, merges=True, decisions=[made()])


def test_a_clock_that_was_ahead_keeps_nothing_open(tmp_path: Path) -> None:
    """A host 40 minutes ahead has closed and opened; what another closes for half an hour then is closed for all."""
    theirs = made(minutes_ago=-40, minutes=10)
    ahead = NOW + timedelta(minutes=40)
    known = decide(decide([], lambda _: [theirs], ahead), lambda _: [], ahead)
    closed = decide(known, lambda _: [made(minutes=30)], NOW)
    switch_file.adopt(beside(tmp_path / "topology.json"), switch_file.as_text(closed, 1_000), 1_000)
    assert on(switch_file.load(beside(tmp_path / "topology.json")), NOW) == on(closed, NOW) != []
