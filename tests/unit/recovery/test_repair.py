"""What is done again in a wallet, in which order, and what becomes of what it refuses."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from errors import Refused, Unavailable
from recovery.lost import Lost, LostFund
from recovery.repair import Repaired, repair
from wire.messages import PAID, FundStatus, PayKind, PayResult, PayStatus
from wire.wallet import Order, WalletClient


class ScriptedWallet:
    """Balances and funds in memory; `poison` fails every call that has it, `away` every call."""

    def __init__(self, **balances: int) -> None:
        self.balances = balances
        self.left: dict[int, int] = {}
        self.paid: set[str] = set()
        self.poison = ""
        self.away = False

    async def fund(
        self, key: str, fingerprint: str, user: str, fen: int, envelope_id: int, header_hash: bytes, draft: bytes
    ) -> tuple[int, int, bytes]:
        if user == self.poison:
            raise Refused("malformed_request", "it is forgotten")
        if envelope_id in self.left:
            return FundStatus.REPLAYED, envelope_id, b""
        if self.balances.get(user, 0) < fen:
            return FundStatus.INSUFFICIENT, 0, b""
        self.balances[user] -= fen
        self.left[envelope_id] = fen
        return FundStatus.DONE, envelope_id, b""

    async def pay(self, orders: Sequence[Order]) -> list[PayResult]:
        if self.away:
            raise Unavailable("wallet_unavailable", "it is away")
        if any(order.user == self.poison for order in orders):
            raise Refused("malformed_request", "it is forgotten")
        return [self._pay(order) for order in orders]

    def _pay(self, order: Order) -> PayResult:
        if order.order_no in self.paid:
            return PAID
        if self.left.get(order.envelope_id, 0) < order.amount_fen:
            return PayResult(PayStatus.REFUSED, "fund_exceeded")
        self.left[order.envelope_id] -= order.amount_fen
        self.balances[order.user] = self.balances.get(order.user, 0) + order.amount_fen
        self.paid.add(order.order_no)
        return PAID


def fund(number: int, sender: str, fen: int) -> LostFund:
    return LostFund("set-1", number, sender, fen, f"key-{number}", bytes(32), number)


def order(number: int, user: str, fen: int) -> Order:
    return Order(f"{number}.0", int(PayKind.CLAIM), user, fen, number)


async def made_good(lost: Lost, wallet: ScriptedWallet) -> Repaired:
    return await repair(lost, {"set-1": cast("WalletClient", wallet)})


def chain(length: int) -> Lost:
    """Each wins the only share of the one before, and sends it on; the newest are listed first."""
    lost = Lost([fund(number, f"user-{number}", 100) for number in reversed(range(length))])
    lost.credits["set-1"] = [order(number, f"user-{number + 1}", 100) for number in range(length)]
    return lost


async def test_winnings_that_were_spent_are_followed_to_their_end() -> None:
    """Of a chain of creates, each paid by the share before, all is made good; called again nothing moves."""
    wallet: Any = ScriptedWallet(**{"user-0": 100})
    done = await made_good(chain(7), wallet)
    assert (done.funded, done.paid, done.not_made_count) == (7, 7, 0)
    assert {user: fen for user, fen in wallet.balances.items() if fen} == {"user-7": 100}
    again = await made_good(chain(7), wallet)
    assert again.not_made_count == 0
    assert {user: fen for user, fen in wallet.balances.items() if fen} == {"user-7": 100}


async def test_what_no_balance_covers_is_named_and_nothing_of_it_is_paid() -> None:
    """Without the first deposit the whole chain is named, creates and credits, and no balance moves."""
    wallet = ScriptedWallet()
    done = await made_good(chain(3), wallet)
    assert (done.funded, done.paid, done.not_made_count) == (0, 0, 6)
    assert not wallet.balances
    assert [one.what for one in done.not_made] == ["create"] * 3 + ["0.0", "1.0", "2.0"]


async def test_an_older_create_comes_first() -> None:
    """Where a balance covers only one of two creates, it is the older one's, as it was."""
    wallet = ScriptedWallet(sender=100)
    lost = Lost([fund(2, "sender", 100), fund(1, "sender", 100)])
    done = await made_good(lost, wallet)
    assert done.envelopes == {1}
    assert [one.envelope_id for one in done.not_made] == [2]


async def test_one_that_cannot_be_done_fails_alone() -> None:
    """An order, or a create, that fails its call is named; all beside it are done."""
    wallet = ScriptedWallet(rich=1_000)
    wallet.left = dict.fromkeys(range(10), 100)
    wallet.poison = "user-4"
    lost = Lost([fund(20, "user-4", 100), fund(21, "rich", 100)])
    lost.credits["set-1"] = [order(number, f"user-{number}", 100) for number in range(10)]
    done = await made_good(lost, wallet)
    assert (done.paid, done.funded) == (9, 1)
    assert [(one.what, one.user) for one in done.not_made] == [("4.0", "user-4"), ("create", "user-4")]


async def test_a_wallet_that_goes_away_ends_it() -> None:
    """What was done until then stands, and the next call goes on."""
    wallet = ScriptedWallet()
    wallet.left, wallet.away = {1: 100}, True
    lost = Lost()
    lost.credits["set-1"] = [order(1, "user", 100)]
    with pytest.raises(Unavailable, match="away"):
        await made_good(lost, wallet)
    wallet.away = False
    assert (await made_good(lost, wallet)).paid == 1
