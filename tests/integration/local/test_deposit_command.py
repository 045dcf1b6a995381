"""`hongbao deposit`: money comes in once per order number, and one is told when."""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from cli.commands import deposit
from cli.table import main
from errors import Unavailable
from installation.access import Access
from tests.integration.gateway.fixtures import RealStack


async def test_a_repeat_says_when_it_was_booked(stack: RealStack) -> None:
    """The second call with a number books nothing, and names the instant of the first."""
    user, number = f"u{uuid.uuid4().hex[:12]}", f"bank-{uuid.uuid4().hex[:12]}"

    async def told_by(*words: str) -> str:
        words = ("deposit", user, "500", *words, "--data", str(stack.data))
        ran = await asyncio.to_thread(CliRunner().invoke, main, list(words))
        return ran.stdout.splitlines()[-1]

    first, again = [json.loads(await told_by("--order-no", number, "--json")) for _ in range(2)]
    assert first == again
    assert first["balance_fen"] == 500
    assert abs((datetime.now(UTC) - datetime.fromisoformat(first["booked_at"])).total_seconds()) < 300
    told = await told_by("--order-no", number)
    assert told == f"{number} was booked {first['booked_at']}; {user} has 5.00 yuan now"
    assert await told_by() == f"{user} has 10.00 yuan now"


class Wallet:
    """One that takes each order, and whose answers to the first call of a kind are lost."""

    def __init__(self) -> None:
        self.orders: list[str] = []
        self.lost = {"deposit", "entries"}

    async def deposit(self, number: str, _user: str, fen: int) -> int:
        self.orders.append(number)
        self._answer("deposit")
        return fen

    async def entries(self, *_: object) -> list[tuple[object, ...]]:
        self._answer("entries")
        return []

    def _answer(self, kind: str) -> None:
        if kind in self.lost:
            self.lost.remove(kind)
            raise Unavailable("outcome_unknown", "no answer from wallet in time", outcome_known=False)


class NearWallet:
    """What the command has of an installation."""

    def __init__(self) -> None:
        self.client = Wallet()
        self.order_no = Access.order_no

    @contextlib.asynccontextmanager
    async def wallet(self) -> AsyncIterator[Wallet]:
        yield self.client


def test_a_deposit_without_an_answer_says_how_to_repeat_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its number, though nobody gave one: the same command again would be another deposit."""
    near = NearWallet()
    monkeypatch.setattr(deposit, "find", lambda _: near)
    failed = CliRunner().invoke(main, ["deposit", "alice", "2000"])
    assert failed.exit_code == 1
    number = near.client.orders[0]
    assert f"it may have been deposited: repeat this with --order-no {number}" in failed.stderr
    again = CliRunner().invoke(main, ["deposit", "alice", "2000", "--order-no", number])
    assert again.exit_code == 0, "what it has is there, though when it was booked could not be read"
    assert "was booked; when could not be read: no answer from wallet in time; alice has 20.00 yuan now" in again.stdout
    assert near.client.orders == [number, number]


@pytest.mark.parametrize("fen", ["0" * 5_000 + "1" * 5_000, "0" * 40 + str(deposit.MAX_DEPOSIT_FEN + 1), "0000"])
def test_too_many_digits_are_no_amount(fen: str) -> None:
    """Also where zeros stand before them."""
    ran = CliRunner().invoke(main, ["deposit", "alice", fen])
    assert ran.exit_code == 2
    assert "FEN is whole fen" in ran.stderr
