"""Does again in the wallet what it has lost: takes the money of creates, pays claims, until nothing more moves.

Who was paid for a share spent it on a create, so the order matters. Envelopes come in order of creation, an envelope's
credits follow its create, and a create that its sender's balance does not cover waits for the sender's next credit; the
sender's later creates wait behind it, or they would spend what it needs. Only when nothing else moves any more are they
tried out of order: then a deposit is missing, and what is there covers some of them. However much is lost, little of it
is in memory (`recovery.limits`).
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from itertools import compress, islice
from typing import TypeVar, cast

from recovery.calls import balance_of, count_covered, pay, take
from recovery.limits import FUNDS_AT_ONCE, ORDERS_AT_ONCE, ORDERS_BEHIND_CREATES, WAITING
from recovery.lost import Lost, LostEnvelope
from recovery.repaired import Repaired
from wire.messages import PayStatus
from wire.wallet import Order, WalletClient

T = TypeVar("T")

_NOT_COVERED = "the sender's balance does not cover it: a deposit was lost as well, or the money was spent again"


async def repair(
    find: Callable[[Lost], AsyncGenerator[LostEnvelope]],
    wallets: Mapping[str, WalletClient],
    reader: WalletClient,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[Lost, Repaired]:
    """Make good what can be; return what was lost, and what became of it.

    `find` looks for what is lost, and counts it (`recovery.lost`); `wallets` are clients with the keys of the SETs, by
    name, `reader` one that may ask for balances. Idempotent: each create and each credit has the key or number of its
    first time. Raises what `find` and the clients raise; what was done until then is durable; the next call goes on.
    """
    lost, done, in_order = Lost(), Repaired(), True
    counted = lost
    while True:
        before = done.moved
        done.not_made, done.not_made_count = [], 0
        this_pass = _Pass(wallets, reader, done, lambda: progress(_so_far(lost, done)), in_order=in_order)
        async with aclosing(find(counted)) as found:
            async for one in found:
                await this_pass.add(one)
        await this_pass.finish()
        if not this_pass.left_out or done.moved == before:
            await this_pass.try_out_of_order()
        if not this_pass.left_out or (not in_order and done.moved == before):
            this_pass.name_what_waits()
            return lost, done
        # Where nothing in memory is covered, what was left out may be.
        in_order = in_order and done.moved > before
        counted = Lost()


class _Pass:
    """One reading of all that is lost. What it left out for want of memory is for the next."""

    def __init__(
        self,
        wallets: Mapping[str, WalletClient],
        reader: WalletClient,
        done: Repaired,
        progress: Callable[[], None],
        *,
        in_order: bool,
    ) -> None:
        self._wallets = wallets
        self._reader = reader
        self._done = done
        self._progress = progress
        self._owed: dict[str, list[Order]] = {name: [] for name in wallets}
        """Credits whose fund stands, by SET."""
        self._creates: dict[str, list[LostEnvelope]] = {}
        """Those that are tried next, by their senders, in order of creation."""
        self._creates_size = 0
        self._behind = 0
        """Credits of these."""
        self._waiting: dict[str, deque[LostEnvelope]] = {}
        """By sender: a create that no balance has covered so far, and those that came after it."""
        self._waiting_size = 0
        self._ready: dict[str, None] = {}
        """Senders who wait and were paid something since."""
        self._tried: set[str] = set()
        """Senders of the creates that are being tried."""
        self._paid: set[str] = set()
        """Those of them who were paid meanwhile: credits of a batch may reach a sender of it before it waits."""
        self._in_order = in_order
        """Whether a create waits behind an earlier one of its sender; if not, each is tried."""
        self._left_out_of: set[str] = set()
        """Senders of creates that were left out: their later ones are, too."""
        self.left_out = 0
        """Creates and credits."""

    async def add(self, one: LostEnvelope) -> None:
        """Take what is lost of an envelope."""
        if one.broken:
            self._done.miss_all(one, one.broken)
            return
        if one.fund is None:
            await self._owe(one)
            return
        sender = one.fund.sender
        if self._creates_size == FUNDS_AT_ONCE or self._behind > ORDERS_BEHIND_CREATES:
            await self._try_creates()
        if self._in_order and (sender in self._waiting or sender in self._left_out_of):
            self._wait(one)
        else:
            self._creates.setdefault(sender, []).append(one)
            self._creates_size += 1
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
            self._done.miss_all(one, _NOT_COVERED)
        self._done.not_made_count += self.left_out

    async def _try_creates(self) -> None:
        """Take the money of the creates that are next, after all credits that came before them."""
        creates, self._creates, self._creates_size, self._behind = self._creates, {}, 0, 0
        await self._settle()
        self._tried, self._paid = set(creates), set()
        for one in await self._take(self._turns(creates)):
            self._wait(one)
        self._ready.update(dict.fromkeys(sender for sender in self._paid if sender in self._waiting))

    async def _settle(self) -> None:
        """Pay what is owed, try the creates of waiting senders who were paid, and repeat until no such one is left."""
        await self._pay_all()
        while self._ready:
            turns: dict[str, list[LostEnvelope]] = {}
            room = FUNDS_AT_ONCE
            for sender in list(self._ready):
                del self._ready[sender]
                turns[sender] = await self._turn_of(sender, room)
                room -= len(turns[sender])
                if room <= 0:
                    break
            short = {one.envelope_id for one in await self._take(self._turns(turns))}
            for sender, turn in turns.items():
                self._let_go(sender, turn, short)
            await self._pay_all()

    async def _turn_of(self, sender: str, room: int) -> list[LostEnvelope]:
        """Return which of a sender's waiting creates are tried now: the first, or out of order what may be covered."""
        queue = self._waiting[sender]
        if self._in_order:
            return list(islice(queue, room))
        balance_fen = await balance_of(self._reader, sender)
        return [one for one in queue if one.fund is not None and one.fund.total_fen <= balance_fen]

    def _turns(self, of_senders: Mapping[str, Sequence[LostEnvelope]]) -> list[Sequence[LostEnvelope]]:
        """Return what is tried together: a sender's creates one after another, or out of order each on its own."""
        turns = of_senders.values()
        return list(turns) if self._in_order else [[one] for turn in turns for one in turn]

    def _let_go(self, sender: str, turn: Sequence[LostEnvelope], short: Collection[int]) -> None:
        """Take what was tried of a sender's queue out of it, but for what is short; if nothing is, the rest is next."""
        gone = {one.envelope_id: _size(one) for one in turn if one.envelope_id not in short}
        queue = self._waiting[sender]
        self._waiting_size -= sum(gone.values())
        before = len(queue)
        while queue and queue[0].envelope_id in gone:
            queue.popleft()
        if before - len(queue) < len(gone):
            self._waiting[sender] = queue = deque(one for one in queue if one.envelope_id not in gone)
        if not queue:
            del self._waiting[sender]
            self._ready.pop(sender, None)
        elif self._in_order and len(gone) == len(turn):
            self._ready[sender] = None

    async def _take(self, turns: Sequence[Sequence[LostEnvelope]]) -> list[LostEnvelope]:
        """Take the money of creates, a turn for each sender; return what balances did not cover, and what is behind."""
        short: list[LostEnvelope] = []
        for start in range(0, len(turns), FUNDS_AT_ONCE):
            for some in await _all(self._take_turn(turn) for turn in turns[start : start + FUNDS_AT_ONCE]):
                short += some
            self._progress()
        return short

    async def _take_turn(self, turn: Sequence[LostEnvelope]) -> Sequence[LostEnvelope]:
        """Take the money of one sender's creates, in order, up to the first that the balance does not cover.

        Those that it covers all together at the same time: no later one takes what an earlier one needs.
        """
        while turn:
            some = turn[: await count_covered(self._reader, [one.fund for one in turn if one.fund is not None])]
            turn = turn[len(some) :]
            if short := list(compress(some, await _all(self._take_one(one) for one in some))):
                return [*short, *turn]
        return []

    async def _take_one(self, one: LostEnvelope) -> bool:
        """Take the money of a create; return whether it is short: its sender's balance does not cover it."""
        if one.fund is None:
            return False
        taken = await take(self._wallets[one.set_name], one.fund)
        if taken.failed:
            self._done.miss_all(one, taken.failed)
        elif not taken.short:
            self._done.funded += 1
            self._done.funded_fen += one.fund.total_fen
            await self._owe(one)
        return taken.short

    async def _owe(self, one: LostEnvelope) -> None:
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
                    done.miss_credit(order, reason or "no answer")
            self._progress()

    def _wait(self, one: LostEnvelope) -> None:
        if one.fund is None:
            return
        size = _size(one)
        sender = one.fund.sender
        if (self._in_order and sender in self._left_out_of) or self._waiting_size + size > WAITING:
            self.left_out += size
            self._left_out_of.add(sender)
        else:
            self._waiting.setdefault(sender, deque()).append(one)
            self._waiting_size += size


def _so_far(lost: Lost, done: Repaired) -> str:
    return f"{lost.envelopes:,} envelopes compared, {done.funded:,} creates and {done.paid:,} credits made good"


def _size(one: LostEnvelope) -> int:
    return 1 + len(one.credits)


async def _all(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Return all answers. All calls end, whatever one raises: what was done is counted, and none is left alone."""
    answers = await asyncio.gather(*calls, return_exceptions=True)
    for one in answers:
        if isinstance(one, BaseException):
            raise one
    return cast("list[T]", answers)
