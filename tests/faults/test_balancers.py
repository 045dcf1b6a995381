"""Gateways behind nginx (HTTP) and HAProxy (TCP), set up as docs/operations/balancers: a restart fails nothing."""

import asyncio
import contextlib
import json
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from client import Hongbao
from local import running
from machine.account import server_account
from machine.debian_programs import find_program
from machine.ports import free_port
from tests.faults.stack_fixtures import Running, running_stack
from tests.faults.test_rolling_restart import PATIENT, PATIENT_S, Witness, restarted

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]

EXAMPLES = Path(__file__).parents[2] / "docs" / "operations" / "balancers"
START_S = 10.0
GATEWAYS = ("gateway-1", "gateway-2")


@contextlib.asynccontextmanager
async def balancer(name: str, folder: Path, gateways: list[str]) -> AsyncIterator[str]:
    """Run the documented example of nginx or HAProxy in front of these addresses; yield its URL."""
    package = {"nginx": "nginx-core", "haproxy": "haproxy"}[name]
    program = await find_program(name, server_account(), folder, package=package)
    example, port = next(EXAMPLES.glob(f"{name}.*")), free_port()
    text = example.read_text()
    for number, gateway in enumerate(gateways, 1):
        assert f"127.0.0.1:808{number}" in text
        text = text.replace(f"127.0.0.1:808{number}", gateway)
    text = text.replace("127.0.0.1:8080", f"127.0.0.1:{port}")
    if name == "nginx":
        kept = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        paths = "".join(f"{one}_temp_path {folder}/{one};" for one in kept)
        text = text.replace("http {", f"pid {folder}/nginx.pid; error_log {folder}/nginx.log; http {{ {paths}", 1)
        words = ["-p", str(folder), "-g", "daemon off;", "-c"]
    else:
        words = ["-db", "-f"]
    file = folder / example.name
    file.write_text(text)
    process = await asyncio.create_subprocess_exec(
        program.path, *words, str(file), env=program.env() or None,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(START_S):
            while process.returncode is None:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                await asyncio.sleep(0.05)
            else:
                assert process.stderr is not None
                pytest.fail(f"{name} does not start: {(await process.stderr.read()).decode()}")
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def own_addresses(one: Running) -> list[str]:
    """Return where each gateway listens alone."""
    parts = running.load(one.stack.folder.running).parts
    found = {part.name: part.address.removeprefix("http://") for part in parts}
    return [found[name] for name in GATEWAYS]


@pytest.mark.long  # the short drill (`test_hosts`) rolls gateways behind nginx, too
@pytest.mark.parametrize("name", ["nginx", "haproxy"])
async def test_a_restart_of_gateways_behind_a_balancer(server_folder: Path, tmp_path: Path, name: str) -> None:
    """It fails no request. Of a stream no event waits in a buffer; one that its gateway ends says when to come back."""
    env = {**PATIENT, "HONGBAO_TRUSTED_PROXIES": "127.0.0.1"}
    async with running_stack(server_folder / "data", sets=1, servers=1, gateways=2, env=env) as one:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, one.stack.restart_as_asked)
        for sender in range(2):
            await one.deposit(f"sender-{sender}", 100_000_000)
        async with balancer(name, tmp_path, own_addresses(one)) as url, Hongbao(url) as hongbao:
            made = await hongbao.user(one.access.token("sender-0")).create(kind="equal", total_fen=100, count=10)
            headers = {"Authorization": f"Bearer {one.access.token('sender-0')}"}
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{url}/v1/live?envelopes={made.envelope_id}", headers=headers) as answer,
            ):
                async with asyncio.timeout(START_S):
                    assert (await _next(answer))["claimed_count"] == 0
                    for number in range(1, 4):
                        assert (await hongbao.user(one.access.token(f"guest-{number}")).open(made)).opened
                        assert (await _next(answer))["claimed_count"] == number
                crowd = Witness(one, seed=6, call_s=PATIENT_S, url=url)
                async with crowd, crowd.busy(people=24, senders=2):
                    await crowd.until(100)
                    assert (await restarted(one, *GATEWAYS)).error == ""
                    await crowd.until(100)
                async with asyncio.timeout(START_S):
                    assert await _next(answer) == {"reason": "leaving"}
                    assert await answer.content.read() == b"\n"
        assert crowd.failed == Counter()
        assert crowd.contradictions == []
        assert (await one.settled_audit()).holds


async def _next(answer: aiohttp.ClientResponse) -> dict[str, Any]:
    """Return the data of the next event."""
    while line := await answer.content.readline():
        if line.startswith(b"data: "):
            return dict(json.loads(line[6:]))
    raise AssertionError("the stream ended")


def test_the_examples_keep_to_the_times_of_a_gateway() -> None:
    """An idle connection is ended by nginx before a draining gateway does, and by no HAProxy before its gateway."""
    from gateway.limits import DRAIN_S, KEEP_ALIVE_S

    nginx, haproxy = (EXAMPLES / "nginx.conf").read_text(), (EXAMPLES / "haproxy.cfg").read_text()
    (kept,) = re.findall(r"keepalive_timeout (\d+)s;", nginx)
    assert int(kept) < DRAIN_S < KEEP_ALIVE_S
    for end in ("client", "server"):
        (waits,) = re.findall(rf"timeout {end} (\d+)s", haproxy)
        assert int(waits) > KEEP_ALIVE_S
