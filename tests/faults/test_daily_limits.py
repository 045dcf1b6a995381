"""Daily limits over HTTP, over two SETs, while servers and the wallet are killed: never one share too many."""

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import pytest

from client import ApiError, Envelope
from schema import roles
from tests.faults.stack_fixtures import Crowd, Running, running_stack

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]

WINS = 3
USERS = [f"user-{number}" for number in range(12)]


@dataclass
class Limited(Crowd):
    """People who are told 429 when they have won enough."""

    codes: Counter[str] = field(default_factory=Counter)
    refused: set[str] = field(default_factory=set)
    """Who has been told that they have won enough."""

    async def tap(self, user: str, envelope: Envelope) -> None:
        try:
            told = await self.open(user, envelope)
            self.codes[told.result] += 1
        except ApiError as error:
            self.codes[error.code] += 1
            if error.status != 429:
                self.contradictions.append(f"open: {error.status} {error}")
            elif error.code == "daily_wins_reached":
                self.refused.add(user)


async def won(running: Running) -> dict[str, int]:
    """Count the shares that each user has, as Postgres has them."""
    found: dict[str, int] = defaultdict(int)
    for name in running.stack.config.set_names():
        connection = await asyncpg.connect(running.stack.postgres(name).dsn(roles.OWNER, roles.DATABASE))
        try:
            for user, count in await connection.fetch(
                "SELECT user_id, count(*) FROM claim WHERE user_id <> '' GROUP BY user_id"
            ):
                found[user] += count
        finally:
            await connection.close()
    return dict(found)


@pytest.mark.long
async def test_nobody_wins_more_than_they_may_whatever_dies(server_folder: Path) -> None:
    """Each user is told `daily_wins_reached` sooner or later, and never has more shares than one may.

    A place that was taken as a server died may be lost for the day: then they have fewer.
    """
    env = {"HONGBAO_WINS_PER_DAY": str(WINS)}
    async with running_stack(server_folder / "data", sets=2, servers=2, env=env) as running:
        for sender in range(4):
            await running.deposit(f"sender-{sender}", 100_000_000)
        async with Limited(running, seed=6) as crowd:
            async with crowd.busy(people=len(USERS), senders=4):
                await crowd.until(40)
                for part in ("set-1-a", "wallet", "set-2-b"):
                    running.stack.kill(part)
                    await crowd.until(60)
                async with asyncio.timeout(60):
                    while crowd.refused < set(USERS):
                        await asyncio.sleep(0.1)
            found = await won(running)
            assert max(found.values()) == WINS
            assert sum(found.values()) > (WINS - 1) * len(USERS)
            for user in USERS:
                await crowd.tap(user, crowd.envelopes[-1])
            assert await won(running) == found
            assert crowd.contradictions == []
        assert (await running.settled_audit()).holds
