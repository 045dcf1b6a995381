"""The creates in flight. Those that arrive in one turn of the event loop share a task, which is cheaper than one each.

No create waits longer for that, because the wallet and the commit queue answer in the order of the calls.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple

from envelope.terms import Terms
from errors import Unavailable
from setnode.actors.request import ReplyTo
from setnode.creation.creator import CreateResult, Creator, Payment
from setnode.creation.request import Create
from setnode.limits import CREATES
from wire.messages import FundStatus


class PendingCreate(NamedTuple):
    """A create and where its reply goes."""

    caller: ReplyTo
    number: int
    create: Create


class CreateCoalescer:
    """Replies to every create exactly once. It owns the tasks, so a caller that disconnects cancels no create."""

    def __init__(self, creator: Creator) -> None:
        self._creator = creator
        self._batch: list[tuple[PendingCreate, Terms, Payment]] = []
        """The creates of this turn of the loop, with their headers, and payments under way."""
        self._in_flight = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._create_task = asyncio.get_running_loop().create_task

    def begin(self, caller: ReplyTo, number: int, create: Create) -> None:
        """Begin a create and reply to `caller` later.

        Raises Unavailable(`busy`, `wallet_unavailable`) if nothing was begun.
        """
        if self._in_flight >= CREATES:
            raise Unavailable("busy", "too many envelopes are being created at once; try again")
        pending = PendingCreate(caller, number, create)
        if self._creator.is_ready(create):
            terms, payment = self._creator.pay_in(create)
            if not self._batch:
                self._own(self._run_batch())
            self._batch.append((pending, terms, payment))
        else:
            self._own(self._run_one(pending, self._creator.create(create)))
        self._in_flight += 1

    async def drain(self) -> None:
        """Wait for the creates in flight."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _run_batch(self) -> None:
        """Enqueue each header once its money is in escrow; a create with another course gets a task of its own."""
        batch, self._batch = self._batch, []
        creator, writing = self._creator, list[tuple[PendingCreate, Terms, asyncio.Future[bool]]]()
        for pending, terms, payment in batch:
            if writing and not payment.done():
                # The creates before this one are replied to without waiting for its payment.
                self._own(self._reply_written(writing))
                writing = []
            try:
                status, envelope_id, draft, *_ = await payment
                if status == FundStatus.DONE and creator.holds(envelope_id):
                    writing.append((pending, terms, creator.enqueue_header(terms)))
                else:
                    completing = creator.complete(pending.create, terms, status, envelope_id, draft)
                    self._own(self._run_one(pending, completing))
            except Exception as error:  # noqa: BLE001 - it goes to the caller, and is logged there
                self._fail(pending, error)
        await self._reply_written(writing)

    async def _reply_written(self, writing: Sequence[tuple[PendingCreate, Terms, asyncio.Future[bool]]]) -> None:
        """Reply to each create once its header is durable."""
        creator = self._creator
        for pending, terms, written in writing:
            try:
                if await creator.await_header(written):
                    self._reply(pending, creator.finish(terms))
                else:
                    self._own(self._run_one(pending, creator.existing(terms.envelope_id)))
            except Exception as error:  # noqa: BLE001 - it goes to the caller, and is logged there
                self._fail(pending, error)

    async def _run_one(self, pending: PendingCreate, work: Coroutine[Any, Any, CreateResult]) -> None:
        try:
            result = await work
        except Exception as error:  # noqa: BLE001 - it goes to the caller, and is logged there
            self._fail(pending, error)
        else:
            self._reply(pending, result)

    def _reply(self, pending: PendingCreate, result: CreateResult) -> None:
        self._in_flight -= 1
        pending.caller.reply(pending.number, *result)

    def _fail(self, pending: PendingCreate, error: Exception) -> None:
        self._in_flight -= 1
        pending.caller.fail(pending.number, error)

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` as a task of the coalescer, which `drain` waits for."""
        task = self._create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
