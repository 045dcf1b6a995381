"""Dispatcher of requests from links: writes of one posting go to the batcher at once, the others get a task each."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Annotated, Any

import msgspec

from errors import Refused
from runtime.traces.span import Tracer
from wallet.batcher import Batcher
from wallet.channels import Channel
from wallet.day_places import DayPlaces, GiveBack, TakePlaces, read_places, read_returned
from wallet.history import History
from wallet.limits import MAX_FUNDS_PAGE, MAX_INSTANT_MS
from wallet.requests import DepositRequest, EnvelopeId, FundRequest, PayOrder, read, read_orders
from wallet.rights import Rights
from wire.messages import Op
from wire.server import Caller
from wire.shapes.fields import PageArgs
from wire.shapes.of_wallet import EnvelopesArgs, FundsArgs, UserArgs
from wire.traced import ReplyTo, serve, take

Values = tuple[Any, ...]
Instant = Annotated[int, msgspec.Meta(ge=0, le=MAX_INSTANT_MS)]


class Span(msgspec.Struct, array_like=True, frozen=True):
    """TOTALS: from an instant until before another."""

    user: str
    from_ms: Instant
    until_ms: Instant


class AskedFunds(msgspec.Struct, array_like=True, frozen=True):
    """PAID_OUT."""

    envelope_ids: Annotated[list[EnvelopeId], msgspec.Meta(max_length=MAX_FUNDS_PAGE)]


class Dispatcher:
    """Serves the wallet's operations (`wire.messages.Op`); its tasks belong to `group`.

    The number of tasks is bounded by the batcher's queues and by the readers' bound on waiting callers.
    """

    def __init__(
        self,
        group: asyncio.TaskGroup,
        batcher: Batcher,
        channel: Channel,
        history: History,
        rights: Rights,
        places: DayPlaces,
        published: Callable[[list[Any]], list[Any]] = lambda _: [],
        tracer: Tracer | None = None,
    ) -> None:
        self._group = group
        self._tasks = 0
        self._batcher = batcher
        self._channel = channel
        self._history = history
        self._rights = rights
        self._places = places
        self._published = published
        self._tracer = tracer
        self._single_postings: dict[int, type[FundRequest | DepositRequest]] = {
            Op.FUND: FundRequest,
            Op.DEPOSIT: DepositRequest,
        }
        self._operations: dict[int, Callable[[list[Any]], Awaitable[Values]]] = {
            Op.BALANCE: self._balance,
            Op.ENTRIES: self._entries,
            Op.ENVELOPES: self._envelopes,
            Op.TOTALS: self._totals,
            Op.FUNDS: self._funds,
            Op.PAID_OUT: self._paid_out,
        }

    def handle(self, caller: Caller, number: int, op: int, args: list[Any]) -> None:
        """Take one request (see `wire.server.Handler`); a reply to a write is sent after its commit."""
        if caller.trace is not None and self._tracer is not None and (parent := take(caller, number)) is not None:
            reply_to = serve(self._tracer, caller, number, f"wallet {Op(op).name}", parent)
            with reply_to.ended_by_an_error():
                self._handle(reply_to, caller, number, op, args)
            return
        self._handle(caller, caller, number, op, args)

    def _handle(self, reply_to: ReplyTo, caller: Caller, number: int, op: int, args: list[Any]) -> None:
        self._rights.check(caller, op)
        request_type = self._single_postings.get(op)
        if request_type is not None:
            request = read(request_type, args)
            if isinstance(request, FundRequest):
                self._rights.check_envelopes(caller, (request.envelope_id,))
            # A callback is cheaper than a task per request (docs/performance/notebook.md).
            self._batcher.submit(request).add_done_callback(partial(_reply_with, reply_to, number))
            return
        if op == Op.PAY:
            checked = read_orders(args[0] if args else None)
            self._rights.check_envelopes(caller, [order.envelope_id for order in checked])
            self._begin(_reply(reply_to, number, self._pay(checked)))
            return
        if op == Op.PLACES:
            asked = read_places(args)
            self._rights.check_envelopes(caller, [one.envelope_id for one in asked.places])
            self._begin(_reply(reply_to, number, self._take_places(asked)))
            return
        if op == Op.GIVE_BACK:
            given = read_returned(args)
            self._rights.check_envelopes(caller, [one.envelope_id for one in given.places])
            self._begin(_reply(reply_to, number, self._give_back_places(given)))
            return
        if op == Op.PUBLISHED:
            reply_to.reply(number, self._published(args))
            return
        operation = self._operations.get(op)
        if operation is None:
            raise Refused("malformed_request", f"the wallet does not know operation {op}")
        self._begin(_reply(reply_to, number, operation(args)))

    @property
    def idle(self) -> bool:
        """Whether no task of a request runs; those that the batcher has are not counted."""
        return self._tasks == 0

    def _begin(self, replying: Coroutine[Any, Any, None]) -> None:
        self._tasks += 1
        self._group.create_task(replying).add_done_callback(self._end)

    def _end(self, _: asyncio.Task[None]) -> None:
        self._tasks -= 1

    async def _pay(self, orders: list[PayOrder]) -> Values:
        return (await self._channel.pay(orders),)

    async def _balance(self, args: list[Any]) -> Values:
        return (await self._history.balance(read(UserArgs, args).user),)

    async def _entries(self, args: list[Any]) -> Values:
        return (await self._history.entries(*_values(read(PageArgs, args))),)

    async def _envelopes(self, args: list[Any]) -> Values:
        return (await self._history.envelopes(*_values(read(EnvelopesArgs, args))),)

    async def _totals(self, args: list[Any]) -> Values:
        return await self._history.totals(*_values(read(Span, args)))

    async def _funds(self, args: list[Any]) -> Values:
        return (await self._history.funds(*_values(read(FundsArgs, args))),)

    async def _take_places(self, asked: TakePlaces) -> Values:
        return (await self._places.take(asked),)

    async def _give_back_places(self, given: GiveBack) -> Values:
        await self._places.give_back(given)
        return ()

    async def _paid_out(self, args: list[Any]) -> Values:
        return (await self._history.paid_out(read(AskedFunds, args).envelope_ids),)


def _values(read_args: msgspec.Struct) -> tuple[Any, ...]:
    return msgspec.structs.astuple(read_args)


def _reply_with(caller: ReplyTo, number: int, answered: asyncio.Future[Any]) -> None:
    """Reply with the batcher's answer; its futures are never cancelled, they end with an answer or an error."""
    error = answered.exception()
    if error is not None:
        caller.fail(number, error)
        return
    answer = answered.result()  # a tuple of values (FUND) or one value
    values = answer if isinstance(answer, tuple) else (answer,)
    caller.reply(number, *values)


async def _reply(caller: ReplyTo, number: int, answer: Awaitable[Values]) -> None:
    try:
        values = await answer
    except Exception as error:  # noqa: BLE001 - the caller gets every error, the group none
        caller.fail(number, error)
    else:
        caller.reply(number, *values)
