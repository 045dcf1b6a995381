"""How far a cursor may move, and how long a lane waits."""

import asyncio
from datetime import UTC, datetime

from events.cursor import Cursor
from events.event import Event
from events.health import Health
from events.lanes import Lanes
from events.outcome import Failed
from events.progress import Passed, Progress

BEGIN = Cursor("1:1:", "1:1:")


def cursor(entry):
    return Cursor("1:1:", "9:9:", "5", entry)


def test_the_cursor_waits_for_the_oldest_entry():
    """Entries that are delivered behind one that is not do not move it; then it moves over all of them."""
    progress = Progress(BEGIN)
    first, second = progress.begin(cursor(1), 2), progress.begin(cursor(2), 1)
    second.done()
    first.done()
    assert progress.advance() == BEGIN
    first.done()
    assert progress.advance() == cursor(2)
    assert (progress.taken(), progress.taken(), len(progress)) == (Passed(2, 3), Passed(), 0)


def test_an_entry_without_events_is_passed_in_its_turn():
    """As the end of a span, or one whose events nobody wants. Ends of empty spans do not pile up behind it."""
    progress = Progress(BEGIN)
    first = progress.begin(cursor(1), 1)
    progress.begin(cursor(2), 0)
    for end in ("9:9:", "10:10:", "11:11:"):
        progress.end_span(Cursor(end, end))
    assert len(progress) == 3
    assert progress.advance() == BEGIN
    first.done()
    assert progress.advance() == Cursor("11:11:", "11:11:")
    assert progress.taken() == Passed(2, 1)


async def test_a_success_ends_the_pauses_of_all_lanes(monkeypatch):
    """Lanes that wait for a receiver go on as soon as one call is accepted."""
    monkeypatch.setattr("events.health.FIRST_PAUSE_S", 0.001)
    health = Health()
    health.failed(Failed("away", retry_after_s=3_000), health.wakes)
    lanes = [asyncio.create_task(health.pause(20, health.wakes)) for _ in range(3)]
    await asyncio.sleep(0.02)
    assert not any(one.done() for one in lanes)
    health.succeeded()
    await asyncio.wait_for(asyncio.gather(*lanes), 1)
    assert health.failing_since is None


def test_a_lane_that_is_held_is_shown_unless_calls_fail():
    """For as long as one lane is held; what calls meet comes first, and a success ends only that."""
    health = Health()
    with health.holding("too many"):
        with health.holding("too many"):
            pass
        assert health.held
        error, since = health.shown
        assert (error, since is None) == ("too many", False)
        health.failed(Failed("away"), health.wakes)
        assert health.shown == ("away", health.failing_since)
        health.succeeded()
        assert health.shown == ("too many", since)
    assert health.shown == ("", None)


def test_how_long_a_receiver_was_asked_in_vain_begins_with_the_first_failure(monkeypatch):
    """Not with what was read of it, and anew after a success."""
    now = 1_000.0
    monkeypatch.setattr("events.health.time.monotonic", lambda: now)
    health = Health(datetime(2026, 11, 1, tzinfo=UTC), "away")
    for at, expected in ((1_000.0, 0.0), (1_070.0, 70.0)):
        now = at
        health.failed(Failed("away"), health.wakes)
        assert health.asked_in_vain_s == expected
    health.succeeded()
    assert health.asked_in_vain_s == 0.0
    health.failed(Failed("away"), health.wakes)
    assert health.asked_in_vain_s == 0.0


async def test_a_wake_counts_for_a_call_that_is_on_its_way():
    """It fails after the wake, with what its receiver said before: that neither pauses its lane nor any other."""
    health = Health()
    began = health.wakes
    health.wake()
    health.failed(Failed("away", retry_after_s=3_000), began)
    await asyncio.wait_for(health.pause(20, began), 1)
    lane = asyncio.create_task(health.pause(0, health.wakes))
    await asyncio.wait_for(lane, 10)


async def test_a_lane_that_was_woken_during_its_call_asks_again_at_once():
    """The receiver came back while a call was on its way, which says what the receiver said before."""
    health = Health()
    calls = []

    class Receiver:
        async def send(self, events):
            calls.append(len(events))
            if len(calls) == 1:
                health.wake()
                return Failed("away", retry_after_s=3_000)
            return None

    class Nothing:
        def waiting(self, _envelope_id):
            return False

    lanes = Lanes(Receiver(), health, Nothing(), count=1, batch=1)
    async with asyncio.timeout(10):
        await lanes._deliver([Event(1, "1.created", "envelope.created", b"{}")], lambda: False)
    assert calls == [1, 1]
