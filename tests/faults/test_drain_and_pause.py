"""An operator takes a server off the ring and a SET out of service, beside traffic and over a restart."""

import asyncio
import json
import re
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.table import main
from client import NO_PATIENCE, Envelope, Hongbao, TryLater
from tests.faults.stack_fixtures import Crowd, Running, running_stack

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]


async def hongbao(*words: str, data: Path) -> tuple[int, str]:
    done = await asyncio.to_thread(CliRunner().invoke, main, [*words, "--data", str(data)])
    return done.exit_code, done.output


async def asked(running: Running, server: str) -> float:
    """Requests that a server has taken off its links so far."""
    (url,) = [one.url for a in running.access.topology().sets for one in a.servers if one.name == server]
    text = await asyncio.to_thread(lambda: urllib.request.urlopen(f"{url}/metrics", timeout=5).read().decode())  # noqa: S310
    found = re.search(r"^hongbao_link_requests_total (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


@pytest.mark.long
async def test_a_drained_server_serves_nobody_and_nobody_notices(server_folder: Path) -> None:
    """Under traffic one server is drained and put back; the last cannot be. No answer contradicts another."""
    async with running_stack(server_folder / "data", sets=1, servers=2) as running:
        for sender in range(4):
            await running.deposit(f"sender-{sender}", 10_000_000)
        async with Crowd(running, seed=11) as crowd:
            async with crowd.busy():
                await crowd.until(100)
                code, said = await hongbao("dba", "drain", "set-1-a", "--json", data=running.data)
                assert code == 0, said
                before = await asked(running, "set-1-a")
                await crowd.until(200)
                assert await asked(running, "set-1-a") == before
                code, said = await hongbao("dba", "drain", "set-1-b", data=running.data)
                assert (code, "all are drained" in said) == (1, True)
                code, said = await hongbao("dba", "drain", "set-1-z", data=running.data)
                assert (code, "no server" in said) == (1, True)
                code, said = await hongbao("dba", "undrain", "set-1-a", data=running.data)
                assert code == 0, said
                await crowd.until(200)
                assert await asked(running, "set-1-a") > before
            await crowd.check()
        assert (await running.settled_audit()).holds


async def _open(running: Running, envelope: Envelope, user: str) -> str:
    """Return the result, without a repeat."""
    async with Hongbao(running.access.gateway_url, patience=NO_PATIENCE) as hongbao:
        return (await hongbao.user(running.access.token(user)).open(envelope)).result


@pytest.mark.long
async def test_a_paused_set_refuses_its_users_until_it_is_resumed(server_folder: Path) -> None:
    """Refused with a code of its own and a time to come again, also after a restart; resumed, it serves as before."""
    data = server_folder / "data"
    async with running_stack(data, sets=1, servers=1) as running:
        await running.deposit("host", 10_000)
        async with Crowd(running, seed=1) as crowd:
            envelope = await crowd.create("host", kind="equal", total_fen=200, count=2)
        assert await _open(running, envelope, "first") == "opened"
        assert (await hongbao("dba", "pause", "set-1", data=data))[0] == 0
        with pytest.raises(TryLater) as paused:
            await _open(running, envelope, "second")
        assert (paused.value.status, paused.value.code) == (503, "set_paused")
        assert paused.value.retry_after_s > 0
        assert (await hongbao("dba", "pause", "set-9", data=data))[0] == 1
        said = json.loads((await hongbao("topology", "show", "--json", data=data))[1])
        assert (said["sets"][0]["paused"], said["sets"][0]["servers"][0]["drained"]) == (True, False)
        said = json.loads((await hongbao("dba", "--json", data=data))[1])
        assert said["sets"][0]["out_of_service"].startswith("set-1 is paused")
    assert json.loads((data / "topology.json").read_text())["sets"][0]["paused"] is True
    async with running_stack(data, sets=1, servers=1) as running:
        with pytest.raises(TryLater) as paused:
            await _open(running, envelope, "second")
        assert paused.value.status == 503
        assert (await hongbao("dba", "resume", "set-1", data=data))[0] == 0
        assert await _open(running, envelope, "second") == "opened"
        assert (await running.settled_audit()).holds
