"""Does again in the wallet what it has lost: takes the money of creates, pays claims, until nothing more moves.

Who was paid for a share spent it on a create, so the order matters. Envelopes come in order of creation, an envelope's
credits follow its create, and a create that its sender's balance does not cover waits for the sender's next credit; the
sender's later creates wait behind it, or they would spend what it needs. Only when nothing else moves any more are they
tried out of order: then a deposit is missing, and what is there covers some of them. However much is lost, little of it
is in memory (`recovery.limits`).
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from itertools import islice

from recovery.calls import pay, take
from recovery.limits import FUNDS_AT_ONCE, ORDERS_AT_ONCE, ORDERS_BEHIND_CREATES, WAITING
from recovery.lost import Lost, LostOf
from recovery.repaired import NotMade, Repaired
from wire.messages import FundStatus, PayStatus
from wire.wallet import Order, WalletClient

_DONE = (FundStatus.DONE, FundStatus.REPLAYED)
_NO_CREATE = "its create is not made good"
_NOT_COVERED = "the sender's balance does not cover it: a deposit was lost as well, or the money was spent again"


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
        before = done.moved
        done.not_made, done.not_made_count = [], 0
        once = _Pass(wallets, done, lambda: progress(_so_far(lost, done)))
        async with aclosing(find(counted)) as found:
            async for one in found:
                await once.add(one)
        await once.finish()
        if not once.left_out or done.moved == before:
            await once.try_out_of_order()
        if not once.left_out or done.moved == before:
            once.name_what_waits()
            return lost, done
        counted = Lost()


class _Pass:
    """One reading of all that is lost. What it left out for want of memory is for the next."""

    def __init__(self, wallets: Mapping[str, WalletClient], done: Repaired, progress: Callable[[], None]) -> None:
        self._wallets = wallets
        self._done = done
        self._progress = progress
        self._owed: dict[str, list[Order]] = {name: [] for name in wallets}
        """Credits whose fund stands, by SET."""
        self._creates: dict[str, LostOf] = {}
        """Those that are tried next, in order of creation; one of each sender, by the sender."""
        self._behind = 0
        """Credits of these."""
        self._waiting: dict[str, deque[LostOf]] = {}
        """By sender: a create that no balance has covered so far, and those that came after it."""
        self._waiting_size = 0
        self._ready: dict[str, None] = {}
        """Senders who wait and were paid something since."""
        self._tried: set[str] = set()
        """Senders of the creates that are being tried."""
        self._paid: set[str] = set()
        """Those of them who were paid meanwhile: credits of a batch may reach a sender of it before it waits."""
        self._in_order = True
        self._left_out_of: set[str] = set()
        """Senders of creates that were left out: their later ones are, too."""
        self.left_out = 0
        """Creates and credits."""

    async def add(self, one: LostOf) -> None:
        """Take what is lost of an envelope."""
        if one.broken:
            self._miss_all(one, one.broken)
            return
        if one.fund is None:
            await self._owe(one)
            return
        sender = one.fund.sender
        if sender in self._creates or len(self._creates) == FUNDS_AT_ONCE or self._behind > ORDERS_BEHIND_CREATES:
            await self._try_creates()
        if sender in self._waiting or sender in self._left_out_of:
            self._wait(one)
        else:
            self._creates[sender] = one
            self._behind += len(one.credits)

    async def finish(self) -> None:
        """Do what is left, in order."""
        await self._try_creates()
        await self._settle()

    async def try_out_of_order(self) -> None:
        """Try all creates that wait, the oldest of each sender first, whatever is not covered before them."""
        self._in_order = False
        self._ready = dict.fromkeys(self._waiting)
        await self._settle()

    def name_what_waits(self) -> None:
        """Note as not made good what waits, and what was left out."""
        waiting = sorted((one for some in self._waiting.values() for one in some), key=lambda one: one.envelope_id)
        for one in waiting:
            self._miss_all(one, _NOT_COVERED)
        self._done.not_made_count += self.left_out

    async def _try_creates(self) -> None:
        """Take the money of the creates that are next, after all credits that came before them."""
        creates, self._creates, self._behind = list(self._creates.values()), {}, 0
        await self._settle()
        self._tried, self._paid = {one.fund.sender for one in creates if one.fund is not None}, set()
        for one in await self._take(creates):
            self._wait(one)
            if one.fund is not None and one.fund.sender in self._paid and one.fund.sender in self._waiting:
                self._ready[one.fund.sender] = None

    async def _settle(self) -> None:
        """Pay what is owed, try the creates of waiting senders who were paid, and repeat until no such one is left."""
        await self._pay_all()
        while self._ready:
            senders = list(islice(self._ready, FUNDS_AT_ONCE))
            tried: list[LostOf] = []
            for sender in senders:
                del self._ready[sender]
                queue = self._waiting[sender]
                tried += [queue[0]] if self._in_order else queue
            short = {one.envelope_id for one in await self._take(tried)}
            gone = {one.envelope_id for one in tried} - short
            for sender in senders:
                self._let_go(sender, gone)
            await self._pay_all()

    def _let_go(self, sender: str, gone: Collection[int]) -> None:
        """Take envelopes out of a sender's queue; its next one is tried then."""
        queue = self._waiting[sender]
        before = len(queue)
        for _ in range(1 if self._in_order else before):
            one = queue.popleft()
            if one.envelope_id in gone:
                self._waiting_size -= _size(one)
            elif self._in_order:
                queue.appendleft(one)
            else:
                queue.append(one)
        if not queue:
            del self._waiting[sender]
            self._ready.pop(sender, None)
        elif len(queue) < before:
            self._ready[sender] = None

    async def _take(self, creates: Sequence[LostOf]) -> list[LostOf]:
        """Take the money of creates; return those that their senders' balances did not cover."""
        short: list[LostOf] = []
        raised: BaseException | None = None
        done = self._done
        for start in range(0, len(creates), FUNDS_AT_ONCE):
            some = [(one, one.fund) for one in creates[start : start + FUNDS_AT_ONCE] if one.fund is not None]
            asked = (take(self._wallets[one.set_name], fund) for one, fund in some)
            # All of them end, whatever one raises: what was done is counted, and no call is left alone.
            answers = await asyncio.gather(*asked, return_exceptions=True)
            for (one, fund), answer in zip(some, answers, strict=True):
                if isinstance(answer, BaseException):
                    raised = answer
                    continue
                status, envelope_id, failed = answer
                if not failed and status in _DONE and envelope_id == one.envelope_id:
                    done.funded += 1
                    done.funded_fen += fund.total_fen
                    await self._owe(one)
                elif not failed and status == FundStatus.INSUFFICIENT:
                    short.append(one)
                else:
                    self._miss_all(one, failed or _another(status))
            self._progress()
            if raised is not None:
                raise raised
        return short

    async def _owe(self, one: LostOf) -> None:
        owed = self._owed[one.set_name]
        owed += one.credits
        if len(owed) >= ORDERS_AT_ONCE:
            await self._pay(one.set_name)

    async def _pay_all(self) -> None:
        for name in self._owed:
            await self._pay(name)

    async def _pay(self, name: str) -> None:
        orders, self._owed[name] = self._owed[name], []
        done = self._done
        for start in range(0, len(orders), ORDERS_AT_ONCE):
            some = orders[start : start + ORDERS_AT_ONCE]
            for order, (status, reason) in zip(some, await pay(self._wallets[name], some), strict=True):
                if status is PayStatus.PAID:
                    done.paid += 1
                    done.paid_fen += order.amount_fen
                    if order.user in self._waiting:
                        self._ready[order.user] = None
                    elif order.user in self._tried:
                        self._paid.add(order.user)
                else:
                    self._miss_credit(order, reason or "no answer")
            self._progress()

    def _wait(self, one: LostOf) -> None:
        if one.fund is None:
            return
        size = _size(one)
        sender = one.fund.sender
        if sender in self._left_out_of or self._waiting_size + size > WAITING:
            self.left_out += size
            self._left_out_of.add(sender)
        else:
            self._waiting.setdefault(sender, deque()).append(one)
            self._waiting_size += size

    def _miss_all(self, one: LostOf, why: str) -> None:
        """Note all that is lost of an envelope; without its create no credit of it can be paid."""
        if (fund := one.fund) is not None:
            self._done.miss(NotMade("create", fund.envelope_id, fund.sender, fund.total_fen, why))
        for order in one.credits:
            self._miss_credit(order, _NO_CREATE if fund is not None else why)

    def _miss_credit(self, order: Order, why: str) -> None:
        self._done.miss(NotMade(order.order_no, order.envelope_id, order.user, order.amount_fen, why))


def _so_far(lost: Lost, done: Repaired) -> str:
    return f"{lost.envelopes:,} envelopes compared, {done.funded:,} creates and {done.paid:,} credits made good"


def _size(one: LostOf) -> int:
    return 1 + len(one.credits)


def _another(status: int) -> str:
    return f"the wallet has another create under its key or ID ({FundStatus(status).name})"
