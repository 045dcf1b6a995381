"""The creates in flight: those that come in one turn of the loop go the usual way together.

A task for each (with three turns of the loop and the frames of four coroutines) took 2.8 of the 26 µs of CPU that a
create costs here. Nobody waits longer for it: the wallet answers in the order of asking, and so does the lane.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple, TypeAlias

from envelope.errors import Unavailable
from envelope.terms import Terms
from setnode.creating.creator import Creator, Made
from setnode.creating.request import Create
from setnode.limits import CREATES
from wire.messages import Fund
from wire.server import Peer

Payment: TypeAlias = asyncio.Future[list[int]]


class Asked(NamedTuple):
    """A create and whom to answer."""

    peer: Peer
    number: int
    create: Create


class Crowds:
    """Answers every create once. The tasks are owned here: a caller that hangs up does not cancel a create."""

    def __init__(self, creator: Creator) -> None:
        self._creator = creator
        self._crowd: list[tuple[Asked, Payment]] = []
        """Those of this turn of the loop, paying in."""
        self._in_flight = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._create_task = asyncio.get_running_loop().create_task

    def take(self, peer: Peer, number: int, create: Create) -> None:
        """Begin a create. Raises Unavailable(`busy`, `peer_down`) where nothing was begun."""
        if self._in_flight >= CREATES:
            raise Unavailable("busy", "too many envelopes are being created at once; try again")
        asked = Asked(peer, number, create)
        if self._creator.is_usual(create):
            payment = self._creator.pay_in(create)
            if not self._crowd:
                self._own(self._together())
            self._crowd.append((asked, payment))
        else:
            self._own(self._alone(asked, self._creator.create(create)))
        self._in_flight += 1

    async def drain(self) -> None:
        """Wait for the creates in flight."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _together(self) -> None:
        """Write each header as soon as it is paid for, and leave what does not come as usual to a task of its own."""
        crowd, self._crowd = self._crowd, []
        creator, writing = self._creator, list[tuple[Asked, Terms, asyncio.Future[bool]]]()
        for asked, payment in crowd:
            if writing and not payment.done():
                # Those before it are not kept waiting for its money.
                self._own(self._tell(writing))
                writing = []
            try:
                status, envelope_id = await payment
                if status == Fund.DONE and creator.holds(envelope_id):
                    terms = creator.terms(asked.create, envelope_id)
                    writing.append((asked, terms, creator.write(terms)))
                else:
                    self._own(self._alone(asked, creator.go_on(asked.create, status, envelope_id)))
            except Exception as error:  # noqa: BLE001 - the caller must hear of it, the peer logs it
                self._fail(asked, error)
        await self._tell(writing)

    async def _tell(self, writing: Sequence[tuple[Asked, Terms, asyncio.Future[bool]]]) -> None:
        """Answer once the headers stand."""
        creator = self._creator
        for asked, terms, written in writing:
            try:
                if await creator.written(written):
                    self._reply(asked, creator.made(terms))
                else:
                    self._own(self._alone(asked, creator.standing(terms.envelope_id)))
            except Exception as error:  # noqa: BLE001 - the caller must hear of it, the peer logs it
                self._fail(asked, error)

    async def _alone(self, asked: Asked, making: Coroutine[Any, Any, Made]) -> None:
        try:
            made = await making
        except Exception as error:  # noqa: BLE001 - the caller must hear of it, the peer logs it
            self._fail(asked, error)
        else:
            self._reply(asked, made)

    def _reply(self, asked: Asked, made: Made) -> None:
        self._in_flight -= 1
        asked.peer.reply(asked.number, *made)

    def _fail(self, asked: Asked, error: Exception) -> None:
        self._in_flight -= 1
        asked.peer.fail(asked.number, error)

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
