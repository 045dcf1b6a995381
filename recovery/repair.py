"""Does again in the wallet what it has lost: takes the money of creates, pays claims, until nothing more moves.

Who was paid for a share spent it on a create, so the order matters: credits whose fund stands, then the creates that
balances cover, then the credits of these, and so on. Each round moves money or is the last one.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from errors import HongbaoError, Unavailable
from recovery.limits import FUNDS_AT_ONCE, NAMED, ORDERS_AT_ONCE
from recovery.lost import Lost, LostFund
from wire.messages import FundStatus, PayResult, PayStatus
from wire.wallet import Order, WalletClient

_DONE = (FundStatus.DONE, FundStatus.REPLAYED)


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
    envelopes: set[int] = field(default_factory=set)
    """Whose fund was made good: payouts that were refused for want of it may be driven again."""
    not_made: list[NotMade] = field(default_factory=list)
    not_made_count: int = 0

    def miss(self, one: NotMade) -> None:
        """Note what could not be made good."""
        self.not_made_count += 1
        if len(self.not_made) < NAMED:
            self.not_made.append(one)


async def repair(
    lost: Lost, wallets: Mapping[str, WalletClient], progress: Callable[[str], None] = lambda _: None
) -> Repaired:
    """Make good what can be; `wallets` are clients with the keys of the SETs, by name.

    Idempotent: each create and each credit has the key or number of its first time. Raises what the clients raise; what
    was done until then is durable, and the next call goes on.
    """
    done = Repaired()
    funds = sorted(lost.funds, key=lambda one: one.at_ms)
    unfunded = {one.envelope_id for one in funds}
    owed = {name: list(orders) for name, orders in lost.credits.items()}
    while True:
        paying = {name: [one for one in some if one.envelope_id not in unfunded] for name, some in owed.items()}
        for name, orders in paying.items():
            await _pay(wallets[name], orders, done)
        owed = {name: [one for one in some if one.envelope_id in unfunded] for name, some in owed.items()}
        before = len(funds)
        funds = await _fund(wallets, funds, done)
        unfunded = {one.envelope_id for one in funds}
        progress(f"{done.funded:,} creates and {done.paid:,} credits made good")
        if len(funds) == before:
            break
    for one in funds:
        why = "the sender's balance does not cover it: a deposit was lost as well, or the money was spent again"
        done.miss(NotMade("create", one.envelope_id, one.sender, one.total_fen, why))
    for orders in owed.values():
        for order in orders:
            why = "its create is not made good"
            done.miss(NotMade(order.order_no, order.envelope_id, order.user, order.amount_fen, why))
    return done


async def _pay(wallet: WalletClient, orders: Sequence[Order], done: Repaired) -> None:
    for start in range(0, len(orders), ORDERS_AT_ONCE):
        some = orders[start : start + ORDERS_AT_ONCE]
        for order, (status, reason) in zip(some, await _results(wallet, some), strict=True):
            if status is PayStatus.PAID:
                done.paid += 1
                done.paid_fen += order.amount_fen
            else:
                done.miss(
                    NotMade(order.order_no, order.envelope_id, order.user, order.amount_fen, reason or "no answer")
                )


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


async def _fund(wallets: Mapping[str, WalletClient], funds: Sequence[LostFund], done: Repaired) -> list[LostFund]:
    """Take the money of creates, the oldest first; returns those that their sender's balance did not cover."""
    short: list[LostFund] = []
    for start in range(0, len(funds), FUNDS_AT_ONCE):
        some = funds[start : start + FUNDS_AT_ONCE]
        answers = await asyncio.gather(*(_take(wallets[one.set_name], one) for one in some))
        for one, (status, envelope_id, failed) in zip(some, answers, strict=True):
            if failed:
                done.miss(NotMade("create", one.envelope_id, one.sender, one.total_fen, failed))
            elif status in _DONE and envelope_id == one.envelope_id:
                done.funded += 1
                done.funded_fen += one.total_fen
                done.envelopes.add(one.envelope_id)
            elif status == FundStatus.INSUFFICIENT:
                short.append(one)
            else:
                why = f"the wallet has another create under its key or ID ({FundStatus(status).name})"
                done.miss(NotMade("create", one.envelope_id, one.sender, one.total_fen, why))
    return short


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
