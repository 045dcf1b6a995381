"""Every process is killed in turn, under load: nothing that anybody was told is lost, and not one fen."""

import asyncio
from pathlib import Path

import pytest

from tests.faults.stack_fixtures import Crowd, running_stack

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

WINS = 500
PARTS = (
    "set-1-a",
    "gateway-1",
    "set-2-b",
    "wallet",
    "postgres-set-1",
    "memcached",
    "set-1-b",
    "postgres-wallet",
    "set-2-a",
    "postgres-set-2",
)


async def test_kill_nine_of_every_process_in_turn_loses_nothing(server_folder: Path) -> None:
    """After kill -9 of each part under load the audit is clean and every `opened` that a client saw is there."""
    async with running_stack(server_folder / "data") as running:
        for sender in range(4):
            await running.deposit(f"sender-{sender}", 100_000_000)
        async with Crowd(running, seed=9) as crowd:
            async with crowd.busy():
                await crowd.until(200)
                for part in PARTS:
                    running.stack.kill(part)
                    await crowd.until(150)
                # How many of the answers are wins hangs on who is faster than whom.
                while len(crowd.opened) <= WINS:
                    await crowd.until(50)
            await crowd.check()
        report = await running.settled_audit()
        assert report.holds, report.violations
        assert report.sums.in_flight == 0
    async with running_stack(server_folder / "data") as running:
        again = await running.settled_audit()
        assert again.holds
        assert again.sums.claims == report.sums.claims


@pytest.mark.long
async def test_two_hundred_clients_three_times_at_once(server_folder: Path) -> None:
    """200 clients open one envelope of 100 shares, each three times at once, over HTTP: exactly 100 win."""
    async with running_stack(server_folder / "data", sets=1) as running:
        await running.deposit("host", 10_000)
        async with Crowd(running, seed=1) as crowd:
            envelope = await crowd.create("host", total_fen=10_000, count=100)
            answers = await asyncio.gather(*(crowd.open(f"client-{n}", envelope) for n in range(200) for _ in range(3)))
            detail = await crowd.detail("host", envelope)
            assert crowd.contradictions == []
        results = [answer.result for answer in answers]
        assert results.count("opened") == 100
        assert results.count("already_opened") == 200
        assert results.count("sold_out") == 300
        by_client = [answers[start : start + 3] for start in range(0, 600, 3)]
        assert all(len({answer.amount_fen for answer in three}) == 1 for three in by_client)
        assert sum(claim.amount_fen for claim in detail.claims) == 10_000
        assert [claim.seq for claim in detail.claims] == list(range(100))
        report = await running.settled_audit()
        assert report.holds, report.violations
