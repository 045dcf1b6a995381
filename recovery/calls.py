"""Asks the wallet for a create or for credits, as their SET did the first time; a call that fails, fails alone."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from errors import HongbaoError, Unavailable
from recovery.limits import PAUSE_S, TRIES
from recovery.lost import LostFund
from wire.messages import PayResult, PayStatus
from wire.wallet import Order, WalletClient

T = TypeVar("T")


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


async def take(wallet: WalletClient, one: LostFund) -> tuple[int, int, str]:
    """Return the status, the envelope that has the money, and why the call failed, if it did."""
    # The fingerprint of the request and the draft of the header are lost with the wallet: a client that repeats its
    # create hears that the key was used, and no second envelope is made.
    try:
        status, envelope_id, *_ = await _patiently(
            lambda: wallet.fund(one.create_key, "", one.sender, one.total_fen, one.envelope_id, one.header_hash, b"")
        )
    except HongbaoError as error:
        if _is_away(error):
            raise
        return -1, 0, error.detail
    return status, envelope_id, ""


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
    return isinstance(error, Unavailable) and error.code != "internal_error"
