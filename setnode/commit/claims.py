"""The lane of claims: actors that decided something line up here; the committer writes what they decided."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from envelope.errors import HongbaoError, Unavailable
from runtime import metrics
from runtime.clock import Clock
from runtime.postgres import is_lost
from setnode.actors.actor import Actor
from setnode.actors.batch import ClaimBatch
from setnode.actors.stage import READY
from setnode.commit import rivals
from setnode.commit.fences import moved_database, wrong_set
from setnode.commit.store import Written, append_claims
from setnode.limits import BATCH_PER_ENVELOPE, CROWD, HOT_AT, STALE_S
from sharding.slots import database_of

_depth = metrics.sizes("hongbao_mailbox_depth", "Requests waiting at an envelope when a batch collects it")
_wait = metrics.seconds("hongbao_mailbox_wait_seconds", "Wait of the oldest request of a batch before it is decided")

FULL_PAUSE_S = 0.02
"""A hot envelope at its cap is looked at again after this long."""
HOT_AT_ONCE = 8
"""Hot envelopes that a transaction asks entries for: each is an exchange with memcached before it can begin."""


class ClaimLane:
    """A queue of ready actors. `committed` hears of every committed batch (the payout workers)."""

    def __init__(self, clock: Clock, server: str, committed: Callable[[int, ClaimBatch, frozenset[int]], None]) -> None:
        self.wanted = asyncio.Event()
        self.crowded = asyncio.Event()
        self._clock = clock
        self._server = server
        self._committed = committed
        self._ready: deque[Actor] = deque()
        # Known before it is asked: to look for them took each transaction 50 ns for every envelope in the line.
        self._hot: dict[int, Actor] = {}

    def want(self, actor: Actor) -> None:
        """Line up an actor that is READY."""
        ready = self._ready
        ready.append(actor)
        # Each flag is raised by the one that makes it true, and lowered by `_signal` alone: to set an event costs more
        # than to line up.
        if len(ready) == 1:
            self.wanted.set()
        if len(ready) == CROWD:
            self.crowded.set()

    def call_hot(self, actor: Actor) -> None:
        """Note that many wait at an actor in the line; one that has had its turn is behind the others from then on."""
        self._hot.pop(actor.envelope_id, None)
        self._hot[actor.envelope_id] = actor

    def hot(self) -> Sequence[int]:
        """Return the envelopes in the line with many waiting, those first that have been so for longest; a few."""
        for actor in [one for one in self._hot.values() if one.phase is not READY or one.waiting < HOT_AT]:
            del self._hot[actor.envelope_id]
        return list(islice(self._hot, HOT_AT_ONCE))

    def gather(self, skip: set[int]) -> ClaimBatch | None:
        """Let ready actors decide, in the order in which they lined up, until the batch is full."""
        batch = ClaimBatch(self._clock.now_ms())
        ready = self._ready
        loop = asyncio.get_running_loop()
        now, oldest, deepest = loop.time(), float("inf"), 0
        stale = now - STALE_S
        for _ in range(len(ready)):
            room = batch.room
            if room <= 0:
                break
            actor = ready.popleft()
            mailbox = actor.mailbox
            if actor.phase is not READY or not mailbox:
                continue
            if actor.envelope_id in skip:
                self._put_off(loop, actor)
                continue
            # A comparison is a sixth of a call of min or max, and these are for every envelope.
            if len(mailbox) > deepest:  # noqa: PLR1730
                deepest = len(mailbox)
            if mailbox[0].arrived < oldest:  # noqa: PLR1730
                oldest = mailbox[0].arrived
            actor.collect(batch, min(BATCH_PER_ENVELOPE, room), stale)
        self._signal()
        if not len(batch):
            return None
        _depth.observe(deepest)
        _wait.observe(max(0.0, now - oldest))
        return batch

    async def write(self, connection: Any, batch: ClaimBatch) -> Written:
        """Write the claims with their payout intents."""
        foreign = rivals.payload([actor.envelope_id for actor in batch.actors if actor.foreign])
        return await append_claims(connection, batch, self._server, foreign)

    def done(self, batch: ClaimBatch, result: Written) -> None:
        """Answer the actors; those whose envelope a rival wrote reload first.

        Great crowds are told at the loop's next turn: in this one the committer sends the next transaction.
        """
        owing = []
        for actor in batch.actors:
            if actor.envelope_id in result.refused:
                actor.reload(in_doubt=False)
            elif actor.settle(owe=True):
                owing.append(actor)
        if owing:
            asyncio.get_running_loop().call_soon(_tell, owing)
        if result.batch_id is not None:
            self._committed(result.batch_id, batch, result.refused)

    def lost(self, batch: ClaimBatch, error: Exception) -> None:
        """Let the actors find out what is true; those whose database has left are asked elsewhere from now on."""
        in_doubt, moved = is_lost(error), moved_database(error)
        for actor in batch.actors:
            actor.reload(in_doubt=in_doubt)
            if moved is not None and database_of(actor.envelope_id % 1000) == moved:
                actor.turn_away(wrong_set())

    def refuse(self, error: HongbaoError) -> None:
        """Refuse all that wait for an entry."""
        ready, self._ready = self._ready, deque()
        self._signal()
        for actor in ready:
            if actor.phase is READY:
                actor.turn_away(error)

    def _signal(self) -> None:
        """Lower the flags that no longer hold."""
        if not self._ready:
            self.wanted.clear()
        if len(self._ready) < CROWD:
            self.crowded.clear()

    def _put_off(self, loop: asyncio.AbstractEventLoop, actor: Actor) -> None:
        """Look again shortly at an envelope that another server is writing; refuse it when that takes too long."""
        if loop.time() - actor.oldest > STALE_S / 2:
            actor.turn_away(Unavailable("busy", "this envelope is very busy; try again in a moment"))
        else:
            # Nor is an entry asked for meanwhile.
            self._hot.pop(actor.envelope_id, None)
            loop.call_later(FULL_PAUSE_S, self._want_again, actor)

    def _want_again(self, actor: Actor) -> None:
        self.want(actor)
        if actor.waiting >= HOT_AT:
            self.call_hot(actor)


def _tell(owing: Sequence[Actor]) -> None:
    for actor in owing:
        actor.tell_owed()
