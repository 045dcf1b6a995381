"""What a process knows of the switches: it follows the file, and each ends at its time."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from errors import Unavailable
from runtime.metrics import REGISTRY
from sharding.ids import make_id
from switches.file import beside, change, load
from switches.switch import Closes, Switch
from switches.switchboard import Switchboard
from tests.clock import ManualClock
from tests.unit.switches.test_switch import DAY, TOPOLOGY, switch

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
HERE, THERE = make_id(DAY, 1, 5), make_id(DAY, 1, 25)


def board(folder: Path) -> tuple[Switchboard, ManualClock, Path]:
    clock, path = ManualClock(NOW), beside(folder / "topology.json")
    return Switchboard(path, clock, lambda: TOPOLOGY), clock, path


def put(path: Path, *switches: Switch) -> None:
    change(path, lambda _: switches, NOW)


def test_without_a_file_nothing_is_closed(tmp_path: Path) -> None:
    """And nothing is asked of it."""
    one, _, _ = board(tmp_path)
    assert not one.closed
    for closes in Closes:
        one.check(closes, HERE)


def test_it_follows_the_file(tmp_path: Path) -> None:
    """Closed where it says so, and open again once it is gone; the metric names what is closed."""
    one, _, path = board(tmp_path)
    put(path, switch("opens:set-1"))
    one.look()
    assert one.closed
    with pytest.raises(Unavailable) as refused:
        one.check(Closes.OPENS, HERE)
    assert (refused.value.code, refused.value.outcome_known, refused.value.retry_after_s) == ("degraded", True, 60.0)
    assert "until 2026-11-26T13:00:00+00:00; nothing was done" in refused.value.detail
    assert "disk full" not in refused.value.detail
    one.check(Closes.OPENS, THERE)
    one.check(Closes.GRABS, HERE)
    assert REGISTRY.get_sample_value("hongbao_switch_on", {"switch": "opens:set-1"}) == 1
    put(path)
    one.look()
    assert not one.closed
    one.check(Closes.OPENS, HERE)
    assert REGISTRY.get_sample_value("hongbao_switch_on", {"switch": "opens:set-1"}) is None


def test_it_ends_at_its_time(tmp_path: Path) -> None:
    """By itself, also if the file cannot be changed any more."""
    one, clock, path = board(tmp_path)
    put(path, switch("creates", until=NOW + timedelta(seconds=5)))
    one.look()
    with pytest.raises(Unavailable) as refused:
        one.check(Closes.CREATES)
    assert refused.value.retry_after_s == 5.0
    clock.advance(seconds=5)
    one.look()
    assert not one.closed


def test_a_damaged_file_changes_nothing(tmp_path: Path) -> None:
    """What was closed stays so, and nothing else is; a later good file is followed."""
    one, _, path = board(tmp_path)
    put(path, switch("creates"))
    one.look()
    for damage in (b"{", b'{"version": 9, "switches": []}', b'{"version": 1, "switches": [{"closes": "refunds"}]}'):
        path.write_bytes(damage)
        one.look()
        assert one.closing(Closes.CREATES) is not None
    path.unlink()
    put(path, switch("grabs"))
    one.look()
    assert one.closing(Closes.CREATES) is None
    assert one.closing(Closes.GRABS) is not None


def test_payouts_are_closed_for_a_set(tmp_path: Path) -> None:
    """One SET, or all."""
    one, _, path = board(tmp_path)
    put(path, switch("payouts:set-1"))
    one.look()
    assert [one.closes_set(Closes.PAYOUTS, name) for name in ("set-1", "set-2")] == [True, False]
    put(path, switch("payouts"))
    one.look()
    assert [one.closes_set(Closes.PAYOUTS, name) for name in ("set-1", "set-2")] == [True, True]


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """And nothing is changed."""
    path = beside(tmp_path / "topology.json")
    put(path, switch("creates"))
    path.with_name("switches.json.new").mkdir()
    with pytest.raises(Unavailable, match="switches_not_written"):
        put(path, switch("grabs"))
    assert [one.name for one in load(path)] == ["creates"]


def test_what_has_ended_leaves_the_file(tmp_path: Path) -> None:
    """At the next change; the file is its owner's alone."""
    path = beside(tmp_path / "topology.json")
    put(path, switch("creates", until=NOW + timedelta(seconds=1)))
    left = change(path, lambda old: [*old, switch("grabs")], NOW + timedelta(seconds=1))
    assert [one.name for one in left] == ["grabs"]
    assert path.stat().st_mode & 0o777 == 0o600
