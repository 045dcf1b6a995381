"""Deliver the events of one sink: envelopes beside each other, the events of one envelope one after the other."""

import asyncio
from collections.abc import Callable, Sequence

from errors import Refused
from events.event import Event
from events.health import Health
from events.limits import APART_TRIES, LANE_EVENTS
from events.outcome import GONE, Failed, Sender
from events.progress import Pending
from events.retries import Retries


class Lanes:
    """A fixed number of queues, each with a task; an envelope's events all go to the same one.

    A call that fails is repeated until it succeeds: the lane waits, and by its bound the reader does. Only an event
    that fails while others succeed is put apart (`Retries`), so that one bad event does not stop a sink. While the
    reader waits for the lane of such an event no others are sent that could succeed. Then the event is put apart on
    suspicion: one until the next success, which has it tried again at once, in case the receiver was away.
    """

    def __init__(self, sender: Sender, health: Health, retries: Retries, *, count: int, batch: int) -> None:
        self._sender = sender
        self._health = health
        self._retries = retries
        self._batch = batch
        self._suspect: tuple[str, int] | None = None
        """What was put apart on suspicion last, and how many successes there were then."""
        self._queues: list[asyncio.Queue[tuple[Event, Pending]]] = [
            asyncio.Queue(max(LANE_EVENTS, 2 * batch)) for _ in range(count)
        ]

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
                await self._retries.put(event, 0, "waits behind an earlier event of its envelope")
            else:
                free.append(event)
        if not free:
            return
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
                return
            if len(free) == 1 and tries >= APART_TRIES and self._may_go_apart(free[0], first, reader_waits):
                await self._retries.put(free[0], 1, failure.reason)
                self._health.set_apart()
                return
            await self._health.pause(tries, wakes)
        self._health.succeeded()
        await self._try_suspect()

    def _may_go_apart(self, event: Event, first: int, reader_waits: Callable[[], bool]) -> bool:
        """Say whether others were accepted since there were `first` successes, or the event is suspected."""
        if self._retries.full:
            return False
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
