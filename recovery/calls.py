"""Asks the wallet for a create or for credits, as their SET did the first time; a call that fails, fails alone."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

from errors import HongbaoError, Unavailable
from recovery.limits import PAUSE_S, TRIES
from recovery.lost import LostFund
from wire.messages import FundStatus, PayResult, PayStatus
from wire.wallet import OF_THE_WALLET, Order, WalletClient

T = TypeVar("T")
_DONE = (FundStatus.DONE, FundStatus.REPLAYED)


class Taken(NamedTuple):
    """What became of a create. `short`: its sender's balance did not cover it; `failed`: why else it was not done."""

    short: bool = False
    failed: str = ""


async def pay(wallet: WalletClient, orders: Sequence[Order]) -> list[PayResult]:
    """Return the result of each order. One that makes a call fail, such as to a forgotten user, is refused alone."""
    try:
        return await _patiently(lambda: wallet.pay(orders))
    except HongbaoError as error:
        if _is_away(error):
            raise
        if len(orders) == 1:
            return [PayResult(PayStatus.REFUSED, error.detail)]
    middle = len(orders) // 2
    return [*await pay(wallet, orders[:middle]), *await pay(wallet, orders[middle:])]


async def take(wallet: WalletClient, one: LostFund) -> Taken:
    """Take the money of a create."""
    # The fingerprint of the request and the draft of the header are lost with the wallet: a client that repeats its
    # create hears that the key was used, and no second envelope is made.
    try:
        status, envelope_id, *_ = await _patiently(
            lambda: wallet.fund(one.create_key, "", one.sender, one.total_fen, one.envelope_id, one.header_hash, b"")
        )
    except HongbaoError as error:
        if _is_away(error):
            raise
        return Taken(failed=error.detail)
    if status in _DONE and envelope_id == one.envelope_id:
        return Taken()
    if status == FundStatus.INSUFFICIENT:
        return Taken(short=True)
    return Taken(failed=f"the wallet has another create under its key or ID ({_name_of(status)})")


async def count_covered(wallet: WalletClient, creates: Sequence[LostFund]) -> int:
    """Return how many of one sender's creates the balance covers, from the first on; 1 at least, which is to be tried.

    `wallet` may ask for balances.
    """
    if len(creates) == 1:
        return 1
    left_fen = await balance_of(wallet, creates[0].sender)
    for number, one in enumerate(creates):
        left_fen -= one.total_fen
        if left_fen < 0:
            return max(number, 1)
    return len(creates)


async def balance_of(wallet: WalletClient, sender: str) -> int:
    """Return a balance in fen; 0 where the wallet does not tell it, as of a forgotten user."""
    try:
        return await _patiently(lambda: wallet.balance(sender))
    except HongbaoError as error:
        if _is_away(error):
            raise
        return 0


async def _patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Repeat a call while the wallet is away, busy, or gives no answer: each may be repeated."""
    for _ in range(TRIES - 1):
        try:
            return await call()
        except Unavailable as error:
            if not _is_away(error):
                raise
        await asyncio.sleep(PAUSE_S)
    return await call()


def _is_away(error: HongbaoError) -> bool:
    """Say whether an error is about the wallet, whatever it was asked: then the command ends, and is called again."""
    return isinstance(error, Unavailable) and error.code in OF_THE_WALLET


def _name_of(status: int) -> str:
    known = {one.value: one.name for one in FundStatus}
    return known.get(status, f"status {status}")  # of a later release
