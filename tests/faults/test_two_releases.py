"""This release and the one before it run together under load: no request fails, and the books add up.

The order is that of docs/operations/upgrade.md: databases, wallet, setnodes, gateways; and back.
"""

import asyncio
import contextlib
import dataclasses
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import aiohttp
import pytest

from local.service import Service
from tests import last_release
from tests.faults.stack_fixtures import Running, running_stack
from tests.faults.test_rolling_restart import PATIENT, PATIENT_S, Witness

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300), pytest.mark.long]

TRACED = {"HONGBAO_TRACE_ENDPOINT": "http://127.0.0.1:9", "HONGBAO_TRACE_RATIO": "0.2"}
"""Every fifth request is traced; the collector is away. Processes of the release before get no notice of traces."""
STEADY_S = 1.5
"""Pause between two parts, as in `local.rolling_restart`."""


@contextlib.asynccontextmanager
async def stack_of(folder: Path, old: Iterable[str]) -> AsyncIterator[Running]:
    """Start a stack whose processes of the kinds `old` are of the last release, with money in some wallets."""
    code = last_release.unpack(folder / "last-release")
    env = {**PATIENT, **TRACED, last_release.FOLDER: str(code)}
    config = {"sets": 1, "servers": 2, "gateways": 2, "env": env, "modules": last_release.modules(old)}
    async with running_stack(folder / "data", **config) as one:
        for sender in range(4):
            await one.deposit(f"sender-{sender}", 100_000_000)
        yield one


async def code_of(running: Running, service: Service) -> str:
    """Say of which release a process is, by the folder that its modules come from."""
    environ = Path(f"/proc/{service.pid}/environ").read_bytes().split(b"\0")
    path = next(one for one in environ if one.startswith(b"PYTHONPATH=")).decode()
    return "last" if "last-release" in path else "this"


async def link_versions(running: Running) -> set[str]:
    """Return the versions of links that are up, as the processes of this release tell it."""
    told = [one for one in running.stack._services() if one.spec.module in last_release.KINDS]
    async with aiohttp.ClientSession() as session:
        key = running.access.metrics_headers()
        answers = [await session.get(f"{one.url}/metrics", headers=key) for one in told]
        metrics = "".join([await answer.text() for answer in answers])
    callers = re.findall(r'^hongbao_link_callers{release="[^"]*",version="(\d)"} [1-9]', metrics, re.MULTILINE)
    lines = [line for one in told for line in one.log.path.read_text().splitlines() if '"event":"link"' in line]
    return {*callers, *(str(json.loads(line)["version"]) for line in lines)}


async def releases(running: Running) -> dict[str, str]:
    return {one.name: await code_of(running, one) for one in running.stack._services()}


@pytest.mark.parametrize("old", [("gateway",), ("setnode",), ("wallet",), ("setnode", "wallet")], ids="+".join)
async def test_processes_of_both_releases_serve_together(server_folder: Path, old: tuple[str, ...]) -> None:
    """Whichever of them is the older one: people open, create and look, and are told what stands."""
    async with stack_of(server_folder, old) as one:
        assert Counter((await releases(one)).values())["last"] == sum(
            {"gateway": 2, "setnode": 2, "wallet": 1}[x] for x in old
        )
        # Links of this release with each other speak its version; those with the last one that one's.
        assert await link_versions(one) == ({"2"} if old == ("setnode", "wallet") else {"2", "3"})
        async with Witness(one, seed=11, call_s=PATIENT_S) as crowd:
            async with crowd.busy(people=24, senders=4):
                looking = asyncio.ensure_future(crowd.look())
                await crowd.until(600)
                crowd.stop()
                await looking
            assert crowd.failed == Counter()
            assert crowd.envelopes
            await crowd.check()
        report = await one.settled_audit()
        assert report.holds, report.violations
        assert report.sums.claims


async def test_an_upgrade_in_the_written_order_fails_no_request_and_neither_does_the_way_back(
    server_folder: Path,
) -> None:
    """Wallet, setnodes, gateways, one process after the other, while people use it; then the same back."""
    async with stack_of(server_folder, last_release.KINDS) as one:
        async with Witness(one, seed=12, call_s=PATIENT_S) as crowd:
            async with crowd.busy(people=16, senders=3):
                looking = asyncio.ensure_future(crowd.look())
                await crowd.until(100)
                await replace_all(one, crowd, last_release.modules(()), in_turn=one.stack._services())
                assert set((await releases(one)).values()) == {"this"}
                back = list(reversed(one.stack._services()))
                await replace_all(one, crowd, last_release.modules(last_release.KINDS), in_turn=back)
                assert set((await releases(one)).values()) == {"last"}
                crowd.stop()
                await looking
            assert crowd.failed == Counter()
            await crowd.check()
        assert (await one.settled_audit()).holds


async def replace_all(running: Running, crowd: Witness, modules: dict[str, str], in_turn: list[Service]) -> None:
    """Restart each process with the module of another release, while the others serve."""
    for service in in_turn:
        kind = service.spec.module.rpartition(".")[2]
        service.spec = dataclasses.replace(service.spec, module=modules[kind])
        await running.stack.restart(service.name)
        await crowd.until(30)
        await asyncio.sleep(STEADY_S)
