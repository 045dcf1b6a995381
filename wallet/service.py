"""The room behind the link: each request becomes a task that waits for its answer and replies."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from envelope.errors import Refused
from wallet.batcher import Batcher
from wallet.channels import Channel
from wallet.requests import DepositRequest, FundRequest, read, read_orders
from wallet.statements import Statements
from wire.messages import Op
from wire.server import Peer

Values = tuple[Any, ...]


class WalletRoom:
    """Answers FUND PAY BALANCE ENTRIES ENVELOPES DEPOSIT FUNDS. Tasks belong to `group`.

    Their number is bounded by the batcher's queue and the readers' waiting line, which refuse at once.
    """

    def __init__(self, group: asyncio.TaskGroup, batcher: Batcher, channel: Channel, statements: Statements) -> None:
        self._group = group
        self._batcher = batcher
        self._channel = channel
        self._statements = statements
        self._answers: dict[int, Callable[[list[Any]], Awaitable[Values]]] = {
            Op.FUND: self._fund,
            Op.PAY: self._pay,
            Op.DEPOSIT: self._deposit,
            Op.BALANCE: self._balance,
            Op.ENTRIES: self._entries,
            Op.ENVELOPES: self._envelopes,
            Op.FUNDS: self._funds,
        }

    def handle(self, peer: Peer, number: int, op: int, args: list[Any]) -> None:
        """Take one request (see `wire.server.Room`); answers come in the order in which they become durable."""
        answer = self._answers.get(op)
        if answer is None:
            raise Refused("malformed_request", f"the wallet does not know operation {op}")
        self._group.create_task(_reply(peer, number, answer(args)))

    async def _fund(self, args: list[Any]) -> Values:
        values: Values = await self._batcher.submit(read(FundRequest, args))
        return values

    async def _pay(self, args: list[Any]) -> Values:
        (orders,) = args
        return (await self._channel.pay(read_orders(orders)),)

    async def _deposit(self, args: list[Any]) -> Values:
        return (await self._batcher.submit(read(DepositRequest, args)),)

    async def _balance(self, args: list[Any]) -> Values:
        (user,) = read(tuple[str], args)
        return (await self._statements.balance(user),)

    async def _entries(self, args: list[Any]) -> Values:
        return (await self._statements.entries(*read(tuple[str, int, int], args)),)

    async def _envelopes(self, args: list[Any]) -> Values:
        return (await self._statements.envelopes(*read(tuple[str, str, int, int], args)),)

    async def _funds(self, args: list[Any]) -> Values:
        return (await self._statements.funds(*read(tuple[int, int, int], args)),)


async def _reply(peer: Peer, number: int, answer: Awaitable[Values]) -> None:
    try:
        values = await answer
    except ValueError:
        peer.fail(number, Refused("malformed_request", "the arguments do not fit the operation"))
    except Exception as error:  # noqa: BLE001 - the caller gets every error, the group none
        peer.fail(number, error)
    else:
        peer.reply(number, *values)
