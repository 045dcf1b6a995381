"""The flags of the claim lane say what is in it, whoever lines up, is taken or refused."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envelope.claim_log import ClaimLog
from envelope.errors import Unavailable
from runtime.clock import SystemClock
from setnode.actors import actor as actor_module
from setnode.actors import batch as batch_module
from setnode.actors.registry import Registry
from setnode.actors.request import Ask, LocalPeer, Request
from setnode.actors.stage import Phase
from setnode.commit import claims
from setnode.commit.claims import ClaimLane
from setnode.commit.store import Written
from tests.unit.envelope.test_ladder import terms

CROWD = 4
HOT_AT = 3
FIRST = 2611210000000001007


def request(number: int) -> Request:
    return Request(
        Ask.OPEN, f"u{number}", token_ok=True, password_mac=None, peer=LocalPeer(), number=1,
        arrived=asyncio.get_running_loop().time(),
    )  # fmt: skip


class Ground:
    """A lane with envelopes, of which opens make batches that are committed or lost."""

    def __init__(self, envelopes: int = 6) -> None:
        clock = SystemClock()
        self.lane = ClaimLane(clock, "s", lambda *_: None)
        self.loading = []
        self.registry = Registry(
            clock,
            loop_time=lambda: 0.0,
            want_commit=self.lane.want,
            call_hot=self.lane.call_hot,
            want_load=self.loading.append,
        )
        now_ms = clock.now_ms()
        self.logs = {
            FIRST + 1000 * each: terms(
                envelope_id=FIRST + 1000 * each, opens_at_ms=now_ms - 1, expires_at_ms=now_ms + 10**9, count=100,
                total_fen=10_000,
            )
            for each in range(envelopes)
        }  # fmt: skip
        for one in self.logs.values():
            self.registry.adopt(ClaimLog(one))
        self.batches = []
        self.opens = 0

    def many_wait(self) -> set[int]:
        """Look through the whole line for those who are hot."""
        return {one.envelope_id for one in self.lane._ready if one.phase is Phase.READY and one.waiting >= HOT_AT}

    def step(self, what: int, envelope: int) -> None:
        if what <= 3:
            self.opens += 1
            self.registry.offer(FIRST + 1000 * envelope, request(self.opens))
        elif what == 4:
            skip = {FIRST + 1000 * envelope} & self.many_wait()
            self.batches += filter(None, [self.lane.gather(skip)])
        elif what == 5 and self.batches:
            self.lane.done(self.batches.pop(0), Written(1))
        elif what == 6 and self.batches:
            self.lane.lost(self.batches.pop(0), ConnectionError())
        elif what == 7:
            self.lane.refuse(Unavailable("busy", "no entry"))
        while self.loading:
            actor = self.loading.pop()
            actor.loaded(ClaimLog(self.logs[actor.envelope_id]))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 5)), min_size=30, max_size=60))
def test_the_flags_say_what_is_in_the_lane(steps):
    """`wanted` while anybody waits, `crowded` while a crowd does: after every step, in any order.

    So does `hot`: those in the line at whom many wait, whether they grew there, came with a log or were left over.
    """

    async def play() -> None:
        ground = Ground()
        for step in steps:
            ground.step(*step)
            line = ground.lane._ready
            assert ground.lane.wanted.is_set() == (len(line) > 0)
            assert ground.lane.crowded.is_set() == (len(line) >= CROWD)
            if step[1] < 2:  # not always: the lane drops those who are hot no more when it is asked
                assert set(ground.lane.hot()) == ground.many_wait()

    with pytest.MonkeyPatch.context() as small:
        small.setattr(claims, "CROWD", CROWD)
        small.setattr(claims, "HOT_AT", HOT_AT)
        small.setattr(actor_module, "HOT_AT", HOT_AT)
        asyncio.run(play())


async def test_no_entry_is_asked_for_while_a_hot_envelope_is_put_off():
    """It is with another server: a moment later it is in the line again, and hot, and its requests can win."""
    ground = Ground()
    for _ in range(claims.HOT_AT):
        ground.step(0, 0)
    assert ground.lane.hot() == [FIRST]
    assert ground.lane.gather({FIRST}) is None
    assert ground.lane.hot() == []
    async with asyncio.timeout(5):
        await ground.lane.wanted.wait()
    assert ground.lane.hot() == [FIRST]
    assert len(ground.lane.gather(set())) == claims.HOT_AT


async def test_a_few_hot_envelopes_are_asked_for_at_once():
    """Those first that have been hot for longest; who is being written is not in the line, however many come."""
    ground = Ground(envelopes=claims.HOT_AT_ONCE + 2)
    for envelope in range(claims.HOT_AT_ONCE + 2):
        for _ in range(claims.HOT_AT):
            ground.step(0, envelope)
    hot = ground.lane.hot()
    assert hot == [FIRST + 1000 * envelope for envelope in range(claims.HOT_AT_ONCE)]
    batch = ground.lane.gather({FIRST})
    for _ in range(claims.HOT_AT):
        ground.step(0, 1)
    assert ground.lane.hot() == []
    ground.lane.done(batch, Written(1))
    assert ground.lane.hot() == [FIRST + 1000]


async def test_hot_envelopes_take_turns(monkeypatch):
    """Those that stay hot while they are written are behind the others, as in the line: nobody's entry is forgotten."""
    monkeypatch.setattr(claims, "HOT_AT", HOT_AT)
    monkeypatch.setattr(actor_module, "HOT_AT", HOT_AT)
    monkeypatch.setattr(batch_module, "BATCH_ROWS", claims.HOT_AT_ONCE * HOT_AT)
    ground = Ground(envelopes=2 * claims.HOT_AT_ONCE)
    first, others = range(claims.HOT_AT_ONCE), range(claims.HOT_AT_ONCE, 2 * claims.HOT_AT_ONCE)
    for envelope in [*first, *others] * HOT_AT:
        ground.step(0, envelope)
    assert ground.lane.hot() == [FIRST + 1000 * envelope for envelope in first]
    batch = ground.lane.gather(set())
    for envelope in [*first] * HOT_AT:
        ground.step(0, envelope)
    ground.lane.done(batch, Written(1))
    assert ground.lane.hot() == [FIRST + 1000 * envelope for envelope in others]
