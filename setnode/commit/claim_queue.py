"""The commit queue of claims: actors with decisions to write, in the order in which they became ready."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from errors import HongbaoError, InvariantBroken, Unavailable
from runtime import metrics
from runtime.clock import Clock
from runtime.postgres import is_lost
from setnode.actors.actor import Actor
from setnode.actors.batch import ClaimBatch
from setnode.actors.phase import Phase
from setnode.commit.fences import moved_database, wrong_set
from setnode.commit.postgres_life import PostgresLife
from setnode.commit.store import Written, append_claims
from setnode.limits import BACKLOG, BATCH_PER_ENVELOPE, HOT_AT, HOT_AT_ONCE, HOT_RETRY_S, STALE_S
from setnode.traces import Traces
from sharding.ids import database_for
from wire.limits import OPENS_CROWD
from wire.load import Waits

_depth = metrics.sizes("hongbao_mailbox_depth", "Requests waiting at an envelope when a batch collects it")
_wait = metrics.seconds("hongbao_mailbox_wait_seconds", "Wait of the oldest request of a batch before it is decided")


class ClaimQueue:
    """A queue of READY actors (`setnode.commit.committer.CommitQueue`).

    `committed` is called with (batch ID, batch, envelopes of which nothing was written) after every commit that wrote
    claims: the payouts take the batch from there. `traces` is where traced requests are noted, `life` which Postgres
    answers.
    """

    def __init__(
        self,
        clock: Clock,
        server: str,
        committed: Callable[[int, ClaimBatch, frozenset[int]], None],
        traces: Traces | None = None,
        life: PostgresLife | None = None,
    ) -> None:
        self.nonempty = asyncio.Event()
        self.backlogged = asyncio.Event()
        self._clock = clock
        self._server = server
        self._committed = committed
        self._traces = traces
        self._life = life
        self._traced = traces.live if traces is not None else {}
        self._ready: deque[Actor] = deque()
        # Kept up to date as actors become hot, so that no transaction searches the queue for them.
        self._hot: dict[int, Actor] = {}
        self._time = asyncio.get_running_loop().time
        self.waits = Waits(self._oldest_wait, self._crowd, OPENS_CROWD)
        """How long requests wait before they are decided (`wire.load`)."""

    def enqueue(self, actor: Actor) -> None:
        """Append an actor that is READY.

        `nonempty` is set if and only if the queue is not empty, `backlogged` if it has at least BACKLOG actors. Both
        are set here on the exact crossing, because Event.set is slower than append; only `_clear_flags` clears them.
        """
        ready = self._ready
        ready.append(actor)
        if len(ready) == 1:
            self.nonempty.set()
        if len(ready) == BACKLOG:
            self.backlogged.set()

    def note_hot(self, actor: Actor) -> None:
        """Note that many requests wait at an actor in the queue; it goes behind the hot actors noted before."""
        self._hot.pop(actor.envelope_id, None)
        self._hot[actor.envelope_id] = actor

    def hot_envelopes(self) -> Sequence[int]:
        """Return up to HOT_AT_ONCE envelopes in the queue that need a lease of their own, longest waiting first."""
        for actor in [one for one in self._hot.values() if one.phase is not Phase.READY or one.waiting < HOT_AT]:
            del self._hot[actor.envelope_id]
        return list(islice(self._hot, HOT_AT_ONCE))

    def next_batch(self, skip: set[int]) -> ClaimBatch | None:
        """Let the actors decide, in the order of the queue, until the batch is full; None if nothing needs writing.

        Envelopes in `skip` (hot, and another server holds their lease) are put off.
        """
        batch = ClaimBatch(self._clock.now_ms())
        batch.postgres_life = 0 if self._life is None else self._life.number
        ready, traced = self._ready, self._traced
        loop = asyncio.get_running_loop()
        now, oldest, deepest = loop.time(), float("inf"), 0
        stale = now - STALE_S
        for _ in range(len(ready)):
            rows_left = batch.rows_left
            if rows_left <= 0:
                break
            actor = ready.popleft()
            mailbox = actor.mailbox
            if actor.phase is not Phase.READY or not mailbox:
                continue
            if actor.envelope_id in skip:
                self._retry_later(loop, actor)
                continue
            # Comparisons, because calls of min and max for every envelope of every batch are slower.
            if len(mailbox) > deepest:  # noqa: PLR1730
                deepest = len(mailbox)
            if mailbox[0].arrived_at < oldest:  # noqa: PLR1730
                oldest = mailbox[0].arrived_at
            actor.collect(batch, min(BATCH_PER_ENVELOPE, rows_left), stale)
            if traced and actor.envelope_id in traced:
                self._note_traced(actor, batch)
        self._clear_flags()
        if not len(batch):
            return None
        _depth.observe(deepest)
        waited = max(0.0, now - oldest)
        _wait.observe(waited)
        self.waits.note(waited)
        return batch

    async def write(self, connection: Any, batch: ClaimBatch) -> Written:
        """Write the claims with their payout intent, and notify the owners of foreign envelopes.

        Raises Unavailable, and nothing is sent, if another Postgres answers than when they were decided.
        """
        if self._life is not None:
            self._life.check(connection, batch.postgres_life)
        foreign = [actor.envelope_id for actor in batch.actors if actor.foreign]
        return await append_claims(connection, batch, self._server, foreign)

    def on_committed(self, batch: ClaimBatch, result: Written) -> None:
        """Have the actors reply; those of which nothing was written reload: a second writer was first.

        One whose rows Postgres does not accept freezes.
        """
        if batch.traced and self._traces is not None:
            batch.paid_for = self._traces.committed(batch, result.refused)
        for actor in batch.actors:
            if actor.envelope_id not in result.refused:
                actor.settle()
            elif actor.envelope_id in result.bad:
                actor.freeze(InvariantBroken("rows_are_accepted", "Postgres does not accept what it would write"))
            else:
                actor.reload(in_doubt=False)
        if result.batch_id is not None:
            self._committed(result.batch_id, batch, result.refused)

    def on_failed(self, batch: ClaimBatch, error: Exception) -> None:
        """Have the actors read what is committed; requests for a database that has moved are refused."""
        if batch.traced and self._traces is not None:
            self._traces.committed(batch, error=error)
        in_doubt, moved = is_lost(error), moved_database(error)
        for actor in batch.actors:
            actor.reload(in_doubt=in_doubt)
            if moved is not None and database_for(actor.envelope_id) == moved:
                actor.reject_waiting(wrong_set())

    def on_rejected(self, error: HongbaoError) -> None:
        """Reject the requests of all actors in the queue."""
        ready, self._ready = self._ready, deque()
        self._clear_flags()
        for actor in ready:
            if actor.phase is Phase.READY:
                actor.reject_waiting(error)

    def _note_traced(self, actor: Actor, batch: ClaimBatch) -> None:
        if self._traces is not None:
            self._traces.decided(actor, batch)

    def _oldest_wait(self) -> float:
        ready = self._ready
        return self._time() - ready[0].oldest_at if ready and ready[0].mailbox else 0.0

    def _crowd(self) -> int:
        # At each actor in the queue at least one request waits: a long queue need not be added up.
        ready = self._ready
        return len(ready) if len(ready) >= OPENS_CROWD else sum(actor.waiting for actor in ready)

    def _clear_flags(self) -> None:
        """Clear the flags that no longer hold."""
        if not self._ready:
            self.nonempty.clear()
        if len(self._ready) < BACKLOG:
            self.backlogged.clear()

    def _retry_later(self, loop: asyncio.AbstractEventLoop, actor: Actor) -> None:
        """Enqueue a hot envelope again after HOT_RETRY_S; reject its requests if they have waited too long."""
        if loop.time() - actor.oldest_at > STALE_S / 2:
            actor.reject_waiting(Unavailable("busy", "this envelope is very busy; try again in a moment"))
        else:
            # While it is not in the queue no lease must be acquired for it.
            self._hot.pop(actor.envelope_id, None)
            loop.call_later(HOT_RETRY_S, self._enqueue_again, actor)

    def _enqueue_again(self, actor: Actor) -> None:
        self.enqueue(actor)
        if actor.waiting >= HOT_AT:
            self.note_hot(actor)
