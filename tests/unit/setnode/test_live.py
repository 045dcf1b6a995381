"""What gateways are told of watched envelopes: each change once, after its commit, and no backlog."""

import json

import pytest

from errors import Unavailable
from setnode import live as live_module
from setnode.actors.request import Action, Request
from setnode.limits import LIVE_CLAIMS
from setnode.live import Watches
from tests.unit.envelope.test_ladder import EXPIRES, OPENS
from tests.unit.setnode.test_actor import Harness
from wire import server as server_module
from wire.messages import LIVE
from wire.server import Caller


class Only:
    """A registry of one actor."""

    def __init__(self, harness: Harness) -> None:
        self.actor = harness.actor
        self.now_ms, self.loop_time = harness.now_ms, harness.loop_time
        self.asleep = False
        self.offered: list[Request] = []

    def peek(self, envelope_id: int):
        return self.actor if envelope_id == self.actor.envelope_id and not self.asleep else None

    def offer(self, envelope_id: int, request: Request) -> None:
        assert envelope_id == self.actor.envelope_id
        self.offered.append(request)


def watched(harness: Harness, *callers: Caller) -> Watches:
    watches = Watches(Only(harness))
    for caller in callers:
        watches.add(caller, harness.actor.envelope_id)
    return watches


def told(caller: Caller) -> list[dict]:
    """Take what waits for a gateway."""
    notices, caller._outbox, caller._shown_bytes = caller._outbox, [], 0
    assert all(notice[:3] == [0, 0, LIVE] for notice in notices)
    return [json.loads(notice[4]) for notice in notices]


def opened(harness: Harness, *users: str, committed: bool = True) -> None:
    for user in users:
        harness.actor.log.append(user, harness.now)
    if committed:
        harness.actor.log.mark_committed()


def test_a_change_is_told_once_and_after_its_commit():
    """To all who watch; the claims are those since the last frame."""
    harness, one, other = Harness(count=10, total_fen=1000), Caller("one"), Caller("other")
    watches = watched(harness, one, other)
    watches.tell()
    assert told(one) == told(other) == []
    opened(harness, "a", "b", committed=False)
    watches.tell()
    assert told(one) == []
    harness.actor.log.mark_committed()
    watches.tell()
    first, same = told(one), told(other)
    assert first == same
    assert [claim["user"] for claim in first[0]["claims"]] == ["a", "b"]
    watches.tell()
    assert told(one) == []
    opened(harness, "c")
    watches.tell()
    assert [claim["user"] for claim in told(one)[0]["claims"]] == ["c"]


def test_time_alone_is_a_change():
    """An envelope expires without anybody's doing."""
    harness, one = Harness(), Caller("one")
    watches = watched(harness, one)
    harness.now = EXPIRES
    watches.tell()
    assert [frame["status"] for frame in told(one)] == ["expired"]
    watches.tell()
    assert told(one) == []


def test_an_envelope_that_opens_is_told_though_it_is_asleep():
    """Its log is read once, by a look of its sender; then the frame says that it is open."""
    harness, one = Harness(), Caller("one")
    harness.now = OPENS - 1000
    watches = watched(harness, one)
    registry = watches._registry
    registry.asleep = True
    watches.tell()
    assert registry.offered == []
    harness.now = OPENS
    for _ in range(3):
        watches.tell()
    assert [(one.action, one.user) for one in registry.offered] == [(Action.DETAIL, harness.terms.sender)]
    assert told(one) == []
    registry.asleep = False
    watches.tell()
    assert [frame["status"] for frame in told(one)] == ["open"]


def test_a_frame_is_bounded():
    """Of a crowd only the newest claims come; their numbers show the gap."""
    harness, one = Harness(count=100, total_fen=1000), Caller("one")
    watches = watched(harness, one)
    opened(harness, *(f"u{number}" for number in range(90)))
    watches.tell()
    (frame,) = told(one)
    assert frame["claimed_count"] == 90
    assert [claim["seq"] for claim in frame["claims"]] == [*range(90 - LIVE_CLAIMS, 90)]


def test_a_gateway_that_does_not_read_is_told_once_it_does(monkeypatch):
    """Others are told each change once meanwhile."""
    harness, slow, quick = Harness(count=10, total_fen=1000), Caller("slow"), Caller("quick")
    watches = watched(harness, slow, quick)
    monkeypatch.setattr(server_module, "OUTBOX_BYTES", 1_000_000)
    slow._shown_bytes = 1_000_000
    for user in "abc":
        opened(harness, user)
        watches.tell()
        assert len(told(quick)) == 1
        watches.tell()
        assert told(quick) == []
    assert slow._outbox == []
    slow._shown_bytes = 0
    watches.tell()
    (frame,) = told(slow)
    assert (frame["claimed_count"], len(frame["claims"])) == (3, 3)
    watches.tell()
    assert told(slow) == told(quick) == []


def test_who_has_gone_or_watches_no_more_is_forgotten():
    """And the envelope with the last of them."""
    harness, one, other = Harness(), Caller("one"), Caller("other")
    watches = watched(harness, one, other)
    one.leave()
    watches.tell()
    assert len(watches._told) == 1
    other.on_notice(8, [[harness.actor.envelope_id]])
    watches.tell()
    assert watches._told == {}


def test_a_gateway_watches_so_many_envelopes(monkeypatch):
    """One more is refused before anything is noted; one that is watched may be asked for again."""
    monkeypatch.setattr(live_module, "WATCHED", 2)
    caller = Caller("one")
    watches = Watches(Only(Harness()))
    for envelope_id in (1, 2, 2):
        watches.asks(caller, envelope_id).reply(7, b"{}", "0.open", 0)
    with pytest.raises(Unavailable, match="busy"):
        watches.asks(caller, 3)
    assert caller.watched == {1, 2}
    assert set(watches._told) == {1, 2}


def test_an_envelope_that_is_not_in_memory_is_told_once_it_is():
    """Its log may have been dropped to bound memory, or because another server wrote."""
    harness, one = Harness(count=10, total_fen=1000), Caller("one")
    watches = watched(harness, one)
    log, harness.actor.log = harness.actor.log, None
    watches.tell()
    assert told(one) == []
    harness.actor.log = log
    opened(harness, "a")
    watches.tell()
    assert len(told(one)) == 1


def test_who_may_not_see_is_not_told():
    """A refused WATCH leaves nothing behind, however many are asked for; one whose room was taken meanwhile is busy."""
    harness, caller = Harness(), Caller("one")
    watches = Watches(Only(harness))
    for envelope_id in range(1, 100):
        watches.asks(caller, envelope_id).fail(envelope_id, Unavailable("busy", "as it may be"))
    assert caller.watched == set()
    assert watches._told == {}


def test_room_that_was_taken_meanwhile(monkeypatch):
    """Two ask for the last place: one is told, the other hears that there is none."""
    monkeypatch.setattr(live_module, "WATCHED", 1)
    caller = Caller("one")
    watches = Watches(Only(Harness()))
    first, second = watches.asks(caller, 1), watches.asks(caller, 2)
    first.reply(1, b"{}", "0.open", 0)
    second.reply(2, b"{}", "0.open", 0)
    assert [reply[1] for reply in caller._outbox] == [0, 2]
    assert caller.watched == {1}


def test_an_envelope_that_cannot_be_shown_stops_no_other(monkeypatch):
    """Its fault is logged; those behind it are told."""
    harness, one = Harness(count=10, total_fen=1000), Caller("one")
    watches = watched(harness, one)
    live = harness.actor.live

    class Broken:
        def live(self, seen, since):
            raise RuntimeError("as it may be")

    registry = watches._registry
    monkeypatch.setattr(registry, "peek", lambda envelope_id: Broken() if envelope_id == 1 else harness.actor)
    watches._told = {1: live_module._Told(), **watches._told}
    watches._told[1].callers.add(one)
    one.watched.add(1)
    opened(harness, "a")
    watches.tell()
    assert len(told(one)) == 1
    assert live is not None
