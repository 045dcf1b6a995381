"""The flags of the claim queue say what is in it, whatever is enqueued, taken or rejected."""

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelope.claim_log import ClaimLog
from errors import Unavailable
from runtime.clock import SystemClock
from setnode.actors import actor as actor_module
from setnode.actors import batch as batch_module
from setnode.actors.phase import Phase
from setnode.actors.registry import Registry
from setnode.actors.request import Action, LocalCaller, Request
from setnode.commit import claim_queue
from setnode.commit.claim_queue import ClaimQueue
from setnode.commit.store import Written
from tests.unit.envelope.test_ladder import terms

BACKLOG = 4
HOT_AT = 3
FIRST = 2611210000000001007


def request(number: int) -> Request:
    return Request(
        Action.OPEN, f"u{number}", token_ok=True, password_mac=None, caller=LocalCaller(), number=1,
        arrived_at=asyncio.get_running_loop().time(),
    )  # fmt: skip


class Ground:
    """A queue with envelopes, of which opens make batches that are committed or lost."""

    def __init__(self, envelopes: int = 6) -> None:
        clock = SystemClock()
        self.queue = ClaimQueue(clock, "s", lambda *_: None)
        self.loading = []
        self.registry = Registry(
            clock,
            loop_time=lambda: 0.0,
            enqueue_commit=self.queue.enqueue,
            note_hot=self.queue.note_hot,
            enqueue_load=self.loading.append,
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
        return {one.envelope_id for one in self.queue._ready if one.phase is Phase.READY and one.waiting >= HOT_AT}

    def step(self, what: int, envelope: int) -> None:
        if what <= 3:
            self.opens += 1
            self.registry.offer(FIRST + 1000 * envelope, request(self.opens))
        elif what == 4:
            skip = {FIRST + 1000 * envelope} & self.many_wait()
            self.batches += filter(None, [self.queue.next_batch(skip)])
        elif what == 5 and self.batches:
            self.queue.on_committed(self.batches.pop(0), Written(1))
        elif what == 6 and self.batches:
            self.queue.on_failed(self.batches.pop(0), ConnectionError())
        elif what == 7:
            self.queue.on_rejected(Unavailable("busy", "no lease"))
        while self.loading:
            actor = self.loading.pop()
            actor.loaded(ClaimLog(self.logs[actor.envelope_id]), math.inf)


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 5)), min_size=30, max_size=60))
def test_the_flags_say_what_is_in_the_lane(steps):
    """`wanted` while anybody waits, `crowded` while a crowd does: after every step, in any order.

    So does `hot`: those in the line at whom many wait, whether they grew there, came with a log or were left over.
    """

    async def play() -> None:
        ground = Ground()
        for step in steps:
            ground.step(*step)
            line = ground.queue._ready
            assert ground.queue.nonempty.is_set() == (len(line) > 0)
            assert ground.queue.backlogged.is_set() == (len(line) >= BACKLOG)
            if step[1] < 2:  # not always: the queue drops those who are hot no more when it is asked
                assert set(ground.queue.hot_envelopes()) == ground.many_wait()

    with pytest.MonkeyPatch.context() as small:
        small.setattr(claim_queue, "BACKLOG", BACKLOG)
        small.setattr(claim_queue, "HOT_AT", HOT_AT)
        small.setattr(actor_module, "HOT_AT", HOT_AT)
        asyncio.run(play())


async def test_no_entry_is_asked_for_while_a_hot_envelope_is_put_off():
    """It is with another server: a moment later it is in the line again, and hot, and its requests can win."""
    ground = Ground()
    for _ in range(claim_queue.HOT_AT):
        ground.step(0, 0)
    assert ground.queue.hot_envelopes() == [FIRST]
    assert ground.queue.next_batch({FIRST}) is None
    assert ground.queue.hot_envelopes() == []
    async with asyncio.timeout(5):
        await ground.queue.nonempty.wait()
    assert ground.queue.hot_envelopes() == [FIRST]
    assert len(ground.queue.next_batch(set())) == claim_queue.HOT_AT


async def test_a_few_hot_envelopes_are_asked_for_at_once():
    """Those first that have been hot for longest; who is being written is not in the line, however many come."""
    ground = Ground(envelopes=claim_queue.HOT_AT_ONCE + 2)
    for envelope in range(claim_queue.HOT_AT_ONCE + 2):
        for _ in range(claim_queue.HOT_AT):
            ground.step(0, envelope)
    hot = ground.queue.hot_envelopes()
    assert hot == [FIRST + 1000 * envelope for envelope in range(claim_queue.HOT_AT_ONCE)]
    batch = ground.queue.next_batch({FIRST})
    for _ in range(claim_queue.HOT_AT):
        ground.step(0, 1)
    assert ground.queue.hot_envelopes() == []
    ground.queue.on_committed(batch, Written(1))
    assert ground.queue.hot_envelopes() == [FIRST + 1000]


async def test_hot_envelopes_take_turns(monkeypatch):
    """Those that stay hot while they are written are behind the others, as in the line: nobody's entry is forgotten."""
    monkeypatch.setattr(claim_queue, "HOT_AT", HOT_AT)
    monkeypatch.setattr(actor_module, "HOT_AT", HOT_AT)
    monkeypatch.setattr(batch_module, "BATCH_ROWS", claim_queue.HOT_AT_ONCE * HOT_AT)
    ground = Ground(envelopes=2 * claim_queue.HOT_AT_ONCE)
    first, others = range(claim_queue.HOT_AT_ONCE), range(claim_queue.HOT_AT_ONCE, 2 * claim_queue.HOT_AT_ONCE)
    for envelope in [*first, *others] * HOT_AT:
        ground.step(0, envelope)
    assert ground.queue.hot_envelopes() == [FIRST + 1000 * envelope for envelope in first]
    batch = ground.queue.next_batch(set())
    for envelope in [*first] * HOT_AT:
        ground.step(0, envelope)
    ground.queue.on_committed(batch, Written(1))
    assert ground.queue.hot_envelopes() == [FIRST + 1000 * envelope for envelope in others]
