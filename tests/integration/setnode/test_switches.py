"""What a SET does while operators have closed views or payouts: shown from memory, refunds paid."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from errors import Unavailable
from switches.file import beside, change
from switches.switch import Switch, read_name
from tests.integration.setnode.fixtures import WAIT_S, Town, common_town, module_databases, shared_town

__all__ = ["common_town", "module_databases", "shared_town"]
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def town(common_town: Town) -> Town:
    return common_town


async def close(town: Town, *names: str) -> None:
    """Close these, and nothing else; wait until both servers go by it."""
    now, made = town.clock.now(), []
    for name in names:
        closes, where = read_name(name)
        until = now + timedelta(hours=1)
        made.append(Switch(closes=closes, where=where, owner="ann", reason="full", since=now, until=until))
    path = beside(Path(town.nodes[0].settings.topology))
    change(path, lambda _: made, now)
    async with asyncio.timeout(WAIT_S):
        for node in town.nodes:
            while node.switches._names != {one.name for one in made}:
                await asyncio.sleep(0.02)


async def test_views_are_answered_from_memory_only(town: Town) -> None:
    """An envelope that must be read from Postgres first is not shown, and can still be opened."""
    known, forgotten = await town.create(100, 2), await town.create(100, 2)
    town.owner(forgotten).registry.forget_idle([forgotten])
    await close(town, "views")
    assert (await town.detail(known, "sender"))["envelope_id"] == str(known)
    with pytest.raises(Unavailable) as refused:
        await town.detail(forgotten, "sender")
    assert refused.value.code == "degraded"
    assert (await town.open(forgotten, "bob"))["result"] == "opened"
    assert (await town.detail(forgotten, "sender"))["envelope_id"] == str(forgotten)


async def test_refunds_are_paid_while_payouts_are_closed(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares that were won wait in Postgres; what is left goes back at once. Open again, all are credited, once."""
    await close(town, "payouts:set-1")
    envelopes = [
        await town.create(100, 4, sender=f"sender-{number}", kind="equal", split="equal") for number in range(6)
    ]
    for one in envelopes:
        assert (await town.open(one, "winner"))["result"] == "opened"
    for number, one in enumerate(envelopes):
        await town.cancel(one, f"sender-{number}")
    async with asyncio.timeout(WAIT_S):
        for number in range(6):
            while await town.wallet.balance(f"sender-{number}") != 75:
                await asyncio.sleep(0.02)
    assert await town.wallet.balance("winner") == 0
    assert await town.scalar("SELECT count(*) FROM payout_batch") > 0
    await close(town)
    await town.paid_out()
    assert await town.wallet.balance("winner") == 6 * 25
    assert [await town.wallet.balance(f"sender-{number}") for number in range(6)] == [75] * 6


async def test_a_backlog_larger_than_memory_does_not_hide_refunds(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """More batches wait than memory holds: each refund behind them is found all the same."""
    monkeypatch.setattr("setnode.services.payouts.payout_backlog.PAY_QUEUE", 3)
    monkeypatch.setattr("setnode.services.payouts.payout_backlog.READ_BACK_BATCHES", 2)
    monkeypatch.setattr("setnode.services.payouts.payout_backlog.ADOPT_AFTER_S", 0.0)
    await close(town, "payouts")
    for number in range(8):
        one = await town.create(100, 2, sender=f"crowd-{number}", kind="equal", split="equal")
        assert (await town.open(one, f"user-{number}"))["result"] == "opened"
    last = await town.create(100, 2, sender="last", kind="equal", split="equal")
    await town.cancel(last, "last")
    async with asyncio.timeout(WAIT_S):
        while await town.wallet.balance("last") != 100:
            await asyncio.gather(*(node.payouts.read_back() for node in town.nodes))
            await asyncio.sleep(0.02)
    await close(town)
    async with asyncio.timeout(WAIT_S):
        while await town.scalar("SELECT count(*) FROM payout_batch"):
            await asyncio.gather(*(node.payouts.read_back() for node in town.nodes))
            await asyncio.sleep(0.02)
    assert [await town.wallet.balance(f"user-{number}") for number in range(8)] == [50] * 8
