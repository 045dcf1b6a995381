"""The flags of the claim lane say what is in it, whoever lines up, is taken or refused."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from envelope.claim_log import ClaimLog
from envelope.errors import Unavailable
from runtime.clock import SystemClock
from setnode.actors.registry import Registry
from setnode.actors.request import Ask, LocalPeer, Request
from setnode.commit import claims
from setnode.commit.claims import ClaimLane
from setnode.commit.store import Written
from tests.unit.envelope.test_ladder import terms

CROWD = 4
FIRST = 2611210000000001007


def request(number: int) -> Request:
    return Request(Ask.OPEN, f"u{number}", token_ok=True, password_mac=None, peer=LocalPeer(), number=1, arrived=0.0)


class Ground:
    """A lane with six envelopes, of which opens make batches that are committed or lost."""

    def __init__(self) -> None:
        clock = SystemClock()
        self.lane = ClaimLane(clock, "s", lambda *_: None)
        self.loading = []
        self.registry = Registry(
            clock, loop_time=lambda: 0.0, want_commit=self.lane.want, want_load=self.loading.append
        )
        now_ms = clock.now_ms()
        self.logs = {
            FIRST + 1000 * each: terms(
                envelope_id=FIRST + 1000 * each, opens_at_ms=now_ms - 1, expires_at_ms=now_ms + 10**9, count=100,
                total_fen=10_000,
            )
            for each in range(6)
        }  # fmt: skip
        for one in self.logs.values():
            self.registry.adopt(ClaimLog(one))
        self.batches = []
        self.opens = 0

    def step(self, what: int, envelope: int) -> None:
        if what <= 3:
            self.opens += 1
            self.registry.offer(FIRST + 1000 * envelope, request(self.opens))
        elif what == 4:
            skip = {FIRST + 1000 * envelope}
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
    """`wanted` while anybody waits, `crowded` while a crowd does: after every step, in any order."""

    async def play() -> None:
        before, claims.CROWD = claims.CROWD, CROWD
        try:
            ground = Ground()
            for step in steps:
                ground.step(*step)
                ready = len(ground.lane._ready)
                assert ground.lane.wanted.is_set() == (ready > 0)
                assert ground.lane.crowded.is_set() == (ready >= CROWD)
        finally:
            claims.CROWD = before

    asyncio.run(play())
