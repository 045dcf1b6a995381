"""Payouts: forgotten, left, refused or away, every claim is credited exactly once or an operator sees it."""

import asyncio
import json
from collections import Counter
from types import SimpleNamespace

import asyncpg
import pytest
from click.testing import CliRunner

from cli.commands import payout as payout_command
from errors import Refused, Unavailable
from setnode.services.payouts import payer as payer_module
from setnode.services.payouts import payout_backlog as backlog_module
from setnode.services.payouts import payout_queues as queues_module
from setnode.services.payouts.finisher import UNREADABLE
from tests.integration.setnode.fixtures import Town, common_town, module_databases, shared_town
from wire.messages import PayStatus

__all__ = ["common_town", "module_databases", "shared_town"]
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def town(common_town: Town) -> Town:
    return common_town


async def sold(town: Town, prefix: str, *, shares: int = 5) -> dict[str, int]:
    """An envelope opened by `shares` users of that prefix; returns what each won."""
    envelope_id = await town.create(1_000, shares)
    answers = await asyncio.gather(*(town.open(envelope_id, f"{prefix}{n}") for n in range(shares)))
    return {f"{prefix}{n}": answer["amount_fen"] for n, answer in enumerate(answers)}


async def balances(town: Town, users: dict[str, int]) -> dict[str, int]:
    return {user: await town.wallet.balance(user) for user in users}


def forget(town: Town, monkeypatch) -> None:
    """As if every server died between commit and pay."""
    for node in town.nodes:
        monkeypatch.setattr(node.claim_queue, "_committed", lambda *_: None)
        node.payouts._overflow = False


def look_back(town: Town) -> None:
    """As after a start: what Postgres holds under this server's name is read back."""
    for node in town.nodes:
        node.payouts._overflow = True


async def credited(town: Town, users: dict[str, int]) -> int:
    names = [f"user:{user}" for user in users]
    return await town.scalar(
        "SELECT count(*) FROM transfer t JOIN account a ON a.account_id = t.user_account WHERE a.name = ANY($1)",
        names,
        wallet=True,
    )


async def test_what_a_dead_server_had_committed_is_paid_by_its_next_life(town: Town, monkeypatch) -> None:
    """No memory of the commit: read_back finds the intents in Postgres and pays each claim once."""
    forget(town, monkeypatch)
    won = await sold(town, "crash")
    assert await balances(town, won) == dict.fromkeys(won, 0)
    look_back(town)
    await asyncio.gather(*(node.payouts.read_back() for node in town.nodes))
    await town.paid_out()
    assert await balances(town, won) == won
    assert await credited(town, won) == len(won)


async def test_another_server_adopts_what_was_left_lying(town: Town, monkeypatch) -> None:
    """Intents of a server that never comes back are paid by the others, once, also when both take them."""
    forget(town, monkeypatch)
    won = await sold(town, "dead")
    for node in town.nodes:
        assert await node.payouts.read_back() == 0
    await town.scalar("UPDATE payout_batch SET server = 'dead', created_at = now() - interval '1 minute'")
    taken = await asyncio.gather(*(node.payouts.read_back() for node in town.nodes))
    assert sum(taken) >= 1
    await town.paid_out()
    assert await balances(town, won) == won
    assert await credited(town, won) == len(won)


async def test_what_does_not_fit_into_memory_is_paid_all_the_same(town: Town, monkeypatch) -> None:
    """With room for one batch in memory the rest is read back from Postgres."""
    monkeypatch.setattr(backlog_module, "PAY_QUEUE", 1)
    groups = [await sold(town, f"full{n}-") for n in range(8)]
    await asyncio.gather(*(sold(town, f"more{n}-") for n in range(8)))
    async with asyncio.timeout(20):
        while await town.scalar("SELECT count(*) FROM payout_batch"):
            await asyncio.gather(*(node.payouts.read_back() for node in town.nodes))
    for won in groups:
        assert await balances(town, won) == won


class Wallet:
    """The real wallet behind a fault: `faults` answers (or raises) for so many calls first."""

    def __init__(self, real, *faults) -> None:
        self.real = real
        self.faults = list(faults)
        self.calls = 0

    async def pay(self, orders):
        self.calls += 1
        if self.faults:
            fault = self.faults.pop(0)
            if isinstance(fault, Exception):
                raise fault
            return [fault] * len(orders)
        return await self.real.pay(orders)


def between(town: Town, monkeypatch, *faults) -> list[Wallet]:
    wallets = [Wallet(node.payer._wallet, *faults) for node in town.nodes]
    for node, wallet in zip(town.nodes, wallets, strict=True):
        monkeypatch.setattr(node.payer, "_wallet", wallet)
    monkeypatch.setattr(payer_module, "PAY_AWAY_S", 0.01)
    return wallets


async def test_while_the_wallet_is_away_no_order_is_lost_and_no_attempt_burned(town: Town, monkeypatch) -> None:
    """Far more failed calls than an order may have attempts: all are paid when the wallet is back."""
    monkeypatch.setattr(backlog_module, "PAY_ATTEMPTS", 2)
    away = [Unavailable("wallet_unavailable", "away"), Unavailable("outcome_unknown", "late", outcome_known=False)] * 10
    wallets = between(town, monkeypatch, *away)
    won = await sold(town, "away")
    await town.paid_out()
    assert max(wallet.calls for wallet in wallets) > 20
    assert await balances(town, won) == won
    assert await town.scalar("SELECT count(*) FROM payout_stuck") == 0


async def test_an_unknown_outcome_is_asked_again_under_the_same_number(town: Town, monkeypatch) -> None:
    """UNKNOWN leaves the order in the queue; paid later, it is paid once."""
    between(town, monkeypatch, (PayStatus.UNKNOWN, "no answer"))
    won = await sold(town, "unknown")
    await town.paid_out()
    assert await balances(town, won) == won
    assert await credited(town, won) == len(won)


class Doubtful:
    """The real wallet, but it takes its time and then does not know about some users, until it is `healed`."""

    def __init__(self, real, healed: asyncio.Event, tries: Counter) -> None:
        self.real = real
        self.healed = healed
        self.tries = tries

    async def pay(self, orders):
        doubtful = [not self.healed.is_set() and order.user.startswith("doubt") for order in orders]
        self.tries.update(order.order_no for order, doubt in zip(orders, doubtful, strict=True) if doubt)
        if any(doubtful):
            await asyncio.sleep(0.3)
        known = iter(await self.real.pay([one for one, doubt in zip(orders, doubtful, strict=True) if not doubt]))
        return [(PayStatus.UNKNOWN, "provider_in_doubt") if doubt else next(known) for doubt in doubtful]


async def test_whoever_can_be_paid_never_waits_behind_those_without_an_answer(town: Town, monkeypatch) -> None:
    """More batches in doubt for ever than memory has room for: others are paid at once, each try is counted.

    When the provider knows again, all of them are paid, those too that had been let go and stood only in Postgres.
    """
    healed, tries = asyncio.Event(), Counter()
    for node in town.nodes:
        monkeypatch.setattr(node.payer, "_wallet", Doubtful(node.payer._wallet, healed, tries))
    monkeypatch.setattr(backlog_module, "PAY_QUEUE", 4)
    monkeypatch.setattr(backlog_module, "PAY_ATTEMPTS", 1_000)
    monkeypatch.setattr(queues_module, "PAY_RETRY_ORDERS", 3)
    monkeypatch.setattr(queues_module, "PAY_RETRY_S", 0.1)
    doubtful = {}
    for n in range(24):
        doubtful |= await sold(town, f"doubt{n}-", shares=2)
    tried = [node.payouts.retries for node in town.nodes]
    async with asyncio.timeout(20):
        while not all(one.orders and one.spilled for one in tried):
            await asyncio.sleep(0.02)
    for n in range(6):
        won = await sold(town, f"sure{n}-", shares=1)
        # Those in doubt never get an answer here: whoever stood behind them would wait for ever, not for long.
        async with asyncio.timeout(20):
            while await balances(town, won) != won:
                await asyncio.sleep(0.02)
        assert max(one.orders for one in tried) <= 3 + 2 * backlog_module.READ_BACK_SPILLED
    async with asyncio.timeout(20):
        while len(tries) < len(doubtful) or min(tries.values()) < 3:
            await asyncio.gather(*(node.payouts.read_back() for node in town.nodes))
            await asyncio.sleep(0.02)
    assert all(attempts >= 2 for one in tried for _, attempts in one._spilled.values())
    assert await balances(town, doubtful) == dict.fromkeys(doubtful, 0)
    healed.set()
    await town.paid_out()
    assert await balances(town, doubtful) == doubtful
    assert await credited(town, doubtful) == len(doubtful)
    assert [(len(one), one.orders, len(one.spilled)) for one in tried] == [(0, 0, 0)] * 2


async def test_a_batch_the_wallet_cannot_read_does_not_hold_up_the_others(town: Town, monkeypatch) -> None:
    """Refused as a whole, each batch goes alone; what stays unreadable ends as stuck, with the wallet's words."""
    monkeypatch.setattr(backlog_module, "PAY_ATTEMPTS", 1)
    between(town, monkeypatch, *[Refused("malformed_request", "cannot read this")] * 40)
    won = await sold(town, "poison", shares=1)
    await town.paid_out()
    rows = await town.rows("SELECT reason, attempts FROM payout_stuck")
    assert [(row["reason"], row["attempts"]) for row in rows] == [("cannot read this", 1)]
    monkeypatch.undo()
    await retry_all(town)
    assert await balances(town, won) == won


class Access:
    """A running stack as the command sees it: this town."""

    def __init__(self, town: Town) -> None:
        self._town = town
        self.clock = town.clock

    def topology(self):
        return SimpleNamespace(sets=[SimpleNamespace(name="set-1")])

    def set_dsn(self, name: str, role: str) -> str:
        return self._town.databases.dsn_as(self._town.set_dsn, role)


async def run(town: Town, monkeypatch, *words: str) -> tuple[int, dict]:
    monkeypatch.setattr(payout_command, "find_current", lambda _: Access(town))
    result = await asyncio.to_thread(CliRunner().invoke, payout_command.command, [*words, "--json"])
    return result.exit_code, json.loads(result.stdout)


async def retry_all(town: Town) -> None:
    with pytest.MonkeyPatch.context() as patch:
        code, said = await run(town, patch, "retry", "--all")
    assert (code, said["retried"] > 0) == (0, True)
    await town.scalar("UPDATE payout_batch SET created_at = created_at - interval '1 minute'")
    await town.nodes[0].payouts.read_back()
    await town.paid_out()


async def test_what_the_wallet_refuses_for_good_an_operator_sees_and_drives_again(town: Town, monkeypatch) -> None:
    """payout_stuck names order, receiver, amount and reason; so does the audit; retry pays it once."""
    between(town, monkeypatch, (PayStatus.REFUSED, "account_closed"))
    won = await sold(town, "stuck", shares=2)
    await town.paid_out()
    report = await town.audit()
    assert (report.sums.stuck, report.sums.in_flight_fen) == (2, sum(won.values()))
    assert {one.check for one in report.violations} == {"payout_is_not_stuck"}
    code, said = await run(town, monkeypatch, "stuck")
    assert code == 1
    assert {one["receiver"]: one["amount_fen"] for one in said["stuck"]} == won
    assert {one["reason"] for one in said["stuck"]} == {"account_closed"}
    assert await run(town, monkeypatch, "retry", "2611210000000001007") == (0, {"retried": 0})
    monkeypatch.undo()
    await retry_all(town)
    assert await balances(town, won) == won
    assert await run(town, monkeypatch, "stuck") == (0, {"stuck": []})


async def test_a_retry_of_what_had_been_paid_after_all_pays_nothing(town: Town) -> None:
    """The order number is the old one: the wallet says paid again, the balance stays."""
    won = await sold(town, "twice", shares=2)
    await town.paid_out()
    rows = await town.rows("SELECT envelope_id, seq FROM claim WHERE user_id = 'twice0'")
    await town.scalar("INSERT INTO payout_stuck VALUES ($1, $2, 1, now(), 'by hand')", *rows[0])
    await retry_all(town)
    assert await balances(town, won) == won


async def test_an_intent_is_forgotten_only_when_all_of_it_is_final(town: Town, monkeypatch) -> None:
    """The database goes away between paying and forgetting: the row stays, the next round forgets it, paid once."""
    broken = [asyncpg.InterfaceError("connection is closed")] * 2
    for node in town.nodes:
        use = node.payouts._session.use

        async def fails_first(use=use):
            if broken:
                raise broken.pop()
            return await use()

        monkeypatch.setattr(node.payouts._session, "use", fails_first)
    won = await sold(town, "forget")
    await town.paid_out()
    assert broken == []
    assert await balances(town, won) == won
    assert await credited(town, won) == len(won)


class Reasoning:
    """The real wallet; it refuses users of that prefix, with these words."""

    def __init__(self, real, prefix: str, reason: str) -> None:
        self.real, self.prefix, self.reason = real, prefix, reason

    async def pay(self, orders):
        known = iter(await self.real.pay([one for one in orders if not one.user.startswith(self.prefix)]))
        return [(PayStatus.REFUSED, self.reason) if one.user.startswith(self.prefix) else next(known) for one in orders]


async def test_words_that_postgres_does_not_take_stop_no_payout(town: Town, monkeypatch) -> None:
    """A refusal with a NUL, which no text may hold: its order is stuck without the words, the batches beside it end."""
    for node in town.nodes:
        monkeypatch.setattr(node.payer, "_wallet", Reasoning(node.payer._wallet, "nul", "account\0closed"))
    await asyncio.gather(*(sold(town, name, shares=2) for name in ("nul", "well-a", "well-b")))
    await town.paid_out()
    rows = await town.rows("SELECT reason, amount_fen FROM payout_stuck")
    assert {row["reason"] for row in rows} == {UNREADABLE}
    assert sum(row["amount_fen"] for row in rows) == 1_000
    assert not any(node.payouts.held for node in town.nodes)
    await asyncio.gather(*(node.payouts.read_back() for node in town.nodes))
    assert {node.payouts.stuck_fen for node in town.nodes} == {1_000}
    monkeypatch.undo()
    await retry_all(town)
