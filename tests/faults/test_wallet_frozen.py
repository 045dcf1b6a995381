"""The wallet stands still while everybody opens: opens go on, and no setnode is taken for lost."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.faults.stack_fixtures import Crowd, running_stack

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]
FROZEN_S = 10.0


class Watching(Crowd):
    """Opens once without a repeat, and says what came."""

    async def try_open(self, user: str, envelope: dict[str, Any]) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {self.running.access.token(user)}"}
        url = f"{self.running.access.gateway_url}/v1/envelopes/{envelope['envelope_id']}/open"
        async with self._session.post(url, json={"share_token": envelope["share_token"]}, headers=headers) as answer:
            told = await answer.json(content_type=None)
            return answer.status, told.get("code") or told["result"]


async def test_opens_go_on_while_the_wallet_stands_still(server_folder: Path) -> None:
    """For ten seconds creates are refused or unknown, while every open is answered; the credits follow."""
    async with running_stack(server_folder / "data", sets=1, servers=2) as running:
        for sender in range(4):
            await running.deposit(f"sender-{sender}", 10_000_000)
        crowd = Watching(running, seed=28)
        async with crowd.busy(people=8):
            await crowd.until(60)
            (wallet,) = [one.pid for one in running.stack._parts() if one.name == "wallet"]
            os.kill(wallet, signal.SIGSTOP)
            try:
                answers = await _keep_opening(crowd)
            finally:
                os.kill(wallet, signal.SIGCONT)
            await crowd.until(60)
        assert {status for status, _ in answers} == {200}, [one for one in answers if one[0] != 200][:5]
        assert len(answers) > 50
        async with aiohttp.ClientSession() as session:
            crowd._session = session
            await crowd.check()
        assert (await running.settled_audit()).holds


async def _keep_opening(crowd: Watching) -> list[tuple[int, str]]:
    loop = asyncio.get_running_loop()
    end, answers = loop.time() + FROZEN_S, []
    while loop.time() < end:
        envelope = crowd.envelopes[len(answers) % len(crowd.envelopes)]
        answers.append(await crowd.try_open(f"late-{len(answers)}", envelope))
        await asyncio.sleep(0.05)
    return answers
