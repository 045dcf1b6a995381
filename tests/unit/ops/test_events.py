"""What happened to parts between two looks."""

from installation.parts import Kind
from ops.events import Events, Happened
from ops.exposition import read
from ops.parts import Part
from ops.scrape import Look


def see(events: Events, at: int, *, up: bool, started: int = 0, pid: int = 0) -> None:
    part = Part(name="set-1-a", kind=Kind.SETNODE, set="set-1", address="a", pid=pid)
    exposed = {"set-1-a": read(f"process_start_time_seconds {started}\n")} if started else {}
    events.see(at, [part], {"set-1-a": Look(up, "nothing listens there")}, exposed)


def test_a_part_goes_and_comes_back() -> None:
    """Away is told once, with the reason, and so is its return; a part that is away from the beginning is told, too."""
    events = Events()
    for at, up in enumerate((True, True, False, False, True, True), 1):
        see(events, at, up=up, started=1 if at < 4 else 2)
    assert [(one.at_ms, one.what) for one in events.latest] == [(3, Happened.AWAY), (5, Happened.BACK)]
    assert events.latest[0].detail == "nothing listens there"
    fresh = Events()
    see(fresh, 1, up=False)
    assert [one.what for one in fresh.latest] == [Happened.AWAY]


def test_a_restart_between_two_looks_is_seen() -> None:
    """By the start time that its metrics tell, or by its process ID where it has no metrics."""
    for first, then in (({"started": 1}, {"started": 2}), ({"pid": 10}, {"pid": 11})):
        events = Events()
        see(events, 1, up=True, **first)
        see(events, 2, up=True, **first)
        see(events, 3, up=True, **then)
        see(events, 4, up=True, **then)
        assert [(one.at_ms, one.what) for one in events.latest] == [(3, Happened.RESTARTED)]
