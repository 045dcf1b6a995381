"""Does again in the wallet what it has lost: takes the money of creates, pays claims, until nothing more moves.

Who was paid for a share spent it on a create, so the order matters: envelopes come in order of creation, an envelope's
credits follow its create, and a create that no balance covers yet is tried again when all others are done. However much
is lost, no more than WAITING of it is in memory.
"""

import asyncio
from array import array
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import NamedTuple

from errors import HongbaoError, Unavailable
from recovery.limits import FUNDS_AT_ONCE, NAMED, ORDERS_AT_ONCE, WAITING
from recovery.lost import Lost, LostFund, LostOf
from wire.messages import FundStatus, PayResult, PayStatus
from wire.wallet import Order, WalletClient

_DONE = (FundStatus.DONE, FundStatus.REPLAYED)
_NO_CREATE = "its create is not made good"
_NOT_COVERED = "the sender's balance does not cover it: a deposit was lost as well, or the money was spent again"


class NotMade(NamedTuple):
    """What could not be made good, and why: `create` or an order number, in fen."""

    what: str
    envelope_id: int
    user: str
    fen: int
    why: str


@dataclass
class Repaired:
    """What was done again, and what was not; `not_made` names NAMED of `not_made_count`."""

    funded: int = 0
    funded_fen: int = 0
    paid: int = 0
    paid_fen: int = 0
    envelopes: "array[int]" = field(default_factory=lambda: array("q"))
    """Whose fund was made good: payouts that were refused for want of it may be driven again."""
    not_made: list[NotMade] = field(default_factory=list)
    not_made_count: int = 0

    def miss(self, one: NotMade) -> None:
        """Note what could not be made good."""
        self.not_made_count += 1
        if len(self.not_made) < NAMED:
            self.not_made.append(one)


async def repair(
    find: Callable[[Lost], AsyncGenerator[LostOf]],
    wallets: Mapping[str, WalletClient],
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[Lost, Repaired]:
    """Make good what can be; return what was lost, and what became of it.

    `find` looks for what is lost, and counts it (`recovery.lost`); `wallets` are clients with the keys of the SETs, by
    name. Idempotent: each create and each credit has the key or number of its first time. Raises what `find` and the
    clients raise; what was done until then is durable, and the next call goes on.
    """
    lost, done = Lost(), Repaired()
    counted = lost
    while True:
        moved = done.funded + done.paid
        done.not_made, done.not_made_count = [], 0
        once = _Pass(wallets, done)
        async with aclosing(find(counted)) as found:
            async for one in found:
                if await once.add(one):
                    so_far = f"{done.funded:,} creates and {done.paid:,} credits made good"
                    progress(f"{counted.envelopes:,} envelopes compared, {so_far}")
        await once.finish()
        if not once.left_out or done.funded + done.paid == moved:
            done.not_made_count += once.left_out
            return lost, done
        counted = Lost()


class _Pass:
    """One reading of all that is lost. What it left out for want of memory is for the next."""

    def __init__(self, wallets: Mapping[str, WalletClient], done: Repaired) -> None:
        self._wallets = wallets
        self._done = done
        self._owed: dict[str, list[Order]] = {name: [] for name in wallets}
        """Credits whose fund stands, by SET."""
        self._creates: list[LostOf] = []
        self._waiting: list[LostOf] = []
        """Whose create no balance has covered so far."""
        self._waiting_size = 0
        self.left_out = 0
        """Creates and credits."""

    async def add(self, one: LostOf) -> bool:
        """Take what is lost of an envelope; say whether the wallet was called, as it is for many at once."""
        if one.fund is None:
            return await self._owe(one)
        self._creates.append(one)
        if len(self._creates) < FUNDS_AT_ONCE:
            return False
        await self._fund(self._creates)
        self._creates = []
        return True

    async def finish(self) -> None:
        """Do the rest, and name what cannot be done."""
        await self._fund(self._creates)
        while self._waiting:
            again, self._waiting, self._waiting_size = self._waiting, [], 0
            for start in range(0, len(again), FUNDS_AT_ONCE):
                await self._fund(again[start : start + FUNDS_AT_ONCE])
            if len(self._waiting) == len(again):
                break
        await self._pay_all()
        for fund in (one.fund for one in self._waiting if one.fund is not None):
            self._done.miss(_not_made(fund, _NOT_COVERED))
        for one in self._waiting:
            self._miss_credits(one)

    async def _owe(self, one: LostOf) -> bool:
        owed = self._owed[one.set_name]
        owed += one.credits
        if len(owed) < ORDERS_AT_ONCE:
            return False
        await self._pay(one.set_name)
        return True

    async def _pay_all(self) -> None:
        for name in self._owed:
            await self._pay(name)

    async def _pay(self, name: str) -> None:
        orders, self._owed[name] = self._owed[name], []
        done = self._done
        for start in range(0, len(orders), ORDERS_AT_ONCE):
            some = orders[start : start + ORDERS_AT_ONCE]
            for order, (status, reason) in zip(some, await _results(self._wallets[name], some), strict=True):
                if status is PayStatus.PAID:
                    done.paid += 1
                    done.paid_fen += order.amount_fen
                else:
                    self._miss_credit(order, reason or "no answer")

    async def _fund(self, creates: Sequence[LostOf]) -> None:
        """Take the money of creates, after the credits of all envelopes that came before them."""
        await self._pay_all()
        done = self._done
        some = [(one, one.fund) for one in creates if one.fund is not None]
        answers = await asyncio.gather(*(_take(self._wallets[one.set_name], fund) for one, fund in some))
        for (one, fund), (status, envelope_id, failed) in zip(some, answers, strict=True):
            if not failed and status in _DONE and envelope_id == one.envelope_id:
                done.funded += 1
                done.funded_fen += fund.total_fen
                done.envelopes.append(one.envelope_id)
                await self._owe(one)
            elif not failed and status == FundStatus.INSUFFICIENT:
                self._wait(one)
            else:
                done.miss(_not_made(fund, failed or _another(status)))
                self._miss_credits(one)

    def _wait(self, one: LostOf) -> None:
        size = 1 + len(one.credits)
        if self._waiting_size + size > WAITING:
            self.left_out += size
        else:
            self._waiting.append(one)
            self._waiting_size += size

    def _miss_credits(self, one: LostOf) -> None:
        for order in one.credits:
            self._miss_credit(order, _NO_CREATE)

    def _miss_credit(self, order: Order, why: str) -> None:
        self._done.miss(NotMade(order.order_no, order.envelope_id, order.user, order.amount_fen, why))


def _another(status: int) -> str:
    return f"the wallet has another create under its key or ID ({FundStatus(status).name})"


def _not_made(fund: LostFund, why: str) -> NotMade:
    return NotMade("create", fund.envelope_id, fund.sender, fund.total_fen, why)


async def _results(wallet: WalletClient, orders: Sequence[Order]) -> list[PayResult]:
    """Return the results of orders; one that fails a call, such as to a user who is forgotten, fails alone."""
    try:
        return await wallet.pay(orders)
    except HongbaoError as error:
        if _is_away(error):
            raise
        if len(orders) == 1:
            return [PayResult(PayStatus.REFUSED, error.detail)]
    middle = len(orders) // 2
    return [*await _results(wallet, orders[:middle]), *await _results(wallet, orders[middle:])]


def _is_away(error: HongbaoError) -> bool:
    """Say whether an error is about the wallet, whatever it was asked: then the command ends, and is called again."""
    return isinstance(error, Unavailable) and error.code != "internal_error"


async def _take(wallet: WalletClient, one: LostFund) -> tuple[int, int, str]:
    """Return the status, the envelope that has the money, and why the call failed, if it did."""
    # The fingerprint of the request and the draft of the header are lost with the wallet: a client that repeats its
    # create hears that the key was used, and no second envelope is made.
    try:
        status, envelope_id, *_ = await wallet.fund(
            one.create_key, "", one.sender, one.total_fen, one.envelope_id, one.header_hash, b""
        )
    except HongbaoError as error:
        if _is_away(error):
            raise
        return -1, 0, error.detail
    return status, envelope_id, ""
