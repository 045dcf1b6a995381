"""Every process is restarted in turn, under load: no request fails, nobody is told two things, no fen is lost."""

import asyncio
import json
import re
import signal
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.table import main
from client import Attempt
from local import rolling_restart, running
from local.running import Progress
from tests.faults.stack_fixtures import Crowd, running_stack

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]

PATIENT = {"HONGBAO_AWAY_S": "25"}
"""On a machine that does much else a process takes seconds to start."""
PATIENT_S = 30.0


@dataclass
class Witness(Crowd):
    """People whose every call must be answered at once: what they would have to repeat is noted in `failed`."""

    failed: Counter[str] = field(default_factory=Counter)

    def attempted(self, attempt: Attempt) -> None:
        if attempt.code:
            self.failed[f"{attempt.method} {attempt.path[:20]}: {attempt.code}"] += 1

    async def look(self) -> None:
        """Read wallets, so that the wallet's own restart is noticed."""
        while not self._stop:
            await self.balance_fen("sender-0")
            await asyncio.sleep(0.02)


async def restarted(running_: Any, *parts: str) -> Progress:
    """Ask for a restart as the command does, and wait for its end."""
    folder = running_.stack.folder
    number = rolling_restart.ask(folder, parts)
    async with asyncio.timeout(120):
        while True:
            now = running.load(folder.running).restart
            if now.number == number and (now.error or not now.left):
                return now
            await asyncio.sleep(0.05)


async def test_a_restart_of_everything_fails_no_request(server_folder: Path) -> None:
    """Two gateways at one address, two servers of one SET, the wallet: people open, create and look meanwhile."""
    async with running_stack(server_folder / "data", sets=1, servers=2, gateways=2, env=PATIENT) as one:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, one.stack.restart_as_asked)
        for sender in range(4):
            await one.deposit(f"sender-{sender}", 100_000_000)
        before = {part.name: part.pid for part in running.load(one.stack.folder.running).parts}
        async with Witness(one, seed=4, call_s=PATIENT_S) as crowd:
            async with crowd.busy(people=24, senders=4):
                looking = asyncio.ensure_future(crowd.look())
                await crowd.until(100)
                assert (await restarted(one)).error == ""
                await crowd.until(100)
                crowd.stop()
                await looking
            assert crowd.failed == Counter()
            now = {part.name: part.pid for part in running.load(one.stack.folder.running).parts}
            ours = {"gateway-1", "gateway-2", "set-1-a", "set-1-b", "wallet"}
            assert {name for name in now if now[name] != before[name]} == ours
            await crowd.check()
        assert (await one.settled_audit()).holds


@pytest.mark.long
async def test_what_is_alone_is_waited_for(server_folder: Path) -> None:
    """One gateway, one server, one wallet: while each is away, requests wait for it."""
    async with running_stack(server_folder / "data", sets=1, servers=1, env=PATIENT) as one:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, one.stack.restart_as_asked)
        await one.deposit("sender-0", 100_000_000)
        async with Witness(one, seed=5, call_s=PATIENT_S) as crowd:
            async with crowd.busy(people=8, senders=1):
                looking = asyncio.ensure_future(crowd.look())
                await crowd.until(50)
                assert (await restarted(one)).error == ""
                await crowd.until(50)
                crowd.stop()
                await looking
            assert crowd.failed == Counter()
        assert (await one.settled_audit()).holds


@pytest.mark.long
async def test_a_restart_says_what_it_did(server_folder: Path) -> None:
    """The command names each part as it is back; an unknown part is refused before anything is restarted."""
    async with running_stack(server_folder / "data", sets=1, servers=1) as one:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, one.stack.restart_as_asked)

        async def hongbao(*words: str) -> tuple[int, str]:
            done = await asyncio.to_thread(CliRunner().invoke, main, ["restart", *words, "--data", str(one.data)])
            return done.exit_code, done.output

        code, said = await hongbao("set-1-a", "memcached")
        assert code == 0, said
        assert re.findall("^(.*) is back after", said, re.MULTILINE) == ["set-1-a", "memcached"]
        code, said = await hongbao("set-1-a", "--json")
        # The stack of this test logs to the same output.
        assert (code, json.JSONDecoder().raw_decode(said, said.index("{"))[0]["restarted"]) == (0, ["set-1-a"])
        before = [part.pid for part in running.load(one.stack.folder.running).parts]
        code, said = await hongbao("set-1-a", "set-1-z")
        assert (code, "no 'set-1-z'" in said) == (1, True)
        assert [part.pid for part in running.load(one.stack.folder.running).parts] == before
