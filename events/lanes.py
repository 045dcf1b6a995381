"""Deliver the events of one sink: envelopes beside each other, the events of one envelope one after the other."""

import asyncio
from collections.abc import Callable, Sequence

from errors import Refused
from events.event import Event
from events.health import Health
from events.limits import APART_TRIES, LANE_EVENTS, RETRY_LOOK_S
from events.outcome import GONE, Failed, Sender
from events.progress import Pending
from events.retries import Retries


class Lanes:
    """A fixed number of queues, each with a task; an envelope's events all go to the same one.

    A call that fails is repeated until it succeeds; meanwhile events pile up in its lane, and once the lane is full the
    reader waits, too. So that one bad event does not stop a sink, an event that fails while others succeed is put
    apart (`Retries`), and its lane goes on.

    While the reader waits, nothing else may be on its way, and then no success can show that the event is bad. So an
    event that fails in a full lane is put apart without that proof, on suspicion. It may be that the receiver is just
    away: therefore only one event is suspected until the next success, and at that success it is tried again at once.
    """

    def __init__(self, sender: Sender, health: Health, retries: Retries, *, count: int, batch: int) -> None:
        self._sender = sender
        self._health = health
        self._retries = retries
        self._batch = batch
        self._calling = 0
        self._suspect: tuple[str, int] | None = None
        """What was put apart on suspicion last, and how many successes there were then."""
        self._queues: list[asyncio.Queue[tuple[Event, Pending]]] = [
            asyncio.Queue(max(LANE_EVENTS, 2 * batch)) for _ in range(count)
        ]

    @property
    def calling(self) -> bool:
        """Whether a lane has an event that it sends until it is accepted, or put apart."""
        return self._calling > 0

    async def put(self, event: Event, pending: Pending) -> None:
        """Take an event; waits while its lane is full."""
        await self._queues[hash(event.envelope_id) % len(self._queues)].put((event, pending))

    async def run(self) -> None:
        """Deliver until cancelled; raises Refused `receiver_gone` if the receiver wants no events any more."""
        async with asyncio.TaskGroup() as tasks:
            for queue in self._queues:
                tasks.create_task(self._work(queue))

    async def _work(self, queue: "asyncio.Queue[tuple[Event, Pending]]") -> None:
        while True:
            taken = [await queue.get()]
            while len(taken) < self._batch and not queue.empty():
                taken.append(queue.get_nowait())
            await self._deliver([event for event, _ in taken], queue.full)
            for _, pending in taken:
                pending.done()

    async def _deliver(self, events: Sequence[Event], reader_waits: Callable[[], bool]) -> None:
        """Return once each of the events was accepted, or is in `Retries`."""
        free = []
        for event in events:
            # In the same call there may be several events of an envelope: all wait, or none.
            if self._retries.waiting(event.envelope_id):
                await self._put_apart(event, 0, "waits behind an earlier event of its envelope")
            else:
                free.append(event)
        if not free:
            return
        self._calling += 1
        try:
            refused = await self._send(free, reader_waits)
        finally:
            self._calling -= 1
        if refused is not None:
            await self._put_apart(free[0], 1, refused.reason)
            self._health.set_apart()

    async def _send(self, free: Sequence[Event], reader_waits: Callable[[], bool]) -> Failed | None:
        """Send until all are accepted; returns the failure of a single event that is to be put apart instead."""
        first = self._health.successes
        tries = 0
        while True:
            wakes = self._health.wakes
            if (failure := await self._sender.send(free)) is None:
                break
            self._note(failure, wakes)
            tries += 1
            if len(free) > 1 and tries > 1:
                # Which of them it is shows if each is sent alone.
                for event in free:
                    await self._deliver([event], reader_waits)
                return None
            if len(free) == 1 and tries >= APART_TRIES and self._may_go_apart(free[0], first, reader_waits):
                return failure
            await self._health.pause(tries, wakes)
        self._health.succeeded()
        await self._try_suspect()
        return None

    async def _put_apart(self, event: Event, tries: int, reason: str) -> None:
        """Put an event into `Retries`. While there is no room the lane waits, which is shown as a failure.

        There is room once the receiver accepts others; so it may accept this one as well: it is tried without a pause.
        """
        full = self._retries.full(event.envelope_id)
        if full:
            with self._health.holding(full):
                while self._retries.full(event.envelope_id):
                    await asyncio.sleep(RETRY_LOOK_S)
        await self._retries.put(event, tries, reason)
        if full:
            await self._retries.hurry(event.id)

    def _may_go_apart(self, event: Event, first: int, reader_waits: Callable[[], bool]) -> bool:
        """Say whether others were accepted since there were `first` successes, or the event is suspected."""
        return self._health.successes > first or (reader_waits() and self._may_suspect(event))

    def _may_suspect(self, event: Event) -> bool:
        if self._suspect is not None and self._suspect[1] == self._health.successes:
            return False
        self._suspect = event.id, self._health.successes
        return True

    async def _try_suspect(self) -> None:
        if self._suspect is not None:
            (event_id, _), self._suspect = self._suspect, None
            await self._retries.hurry(event_id)

    def _note(self, failure: Failed, wakes: int) -> None:
        self._health.failed(failure, wakes)
        if failure.gone:
            raise Refused(GONE, failure.reason)
