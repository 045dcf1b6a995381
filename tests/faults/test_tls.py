"""A whole stack over TLS: everything works that works without, and a certificate is replaced while it serves."""

import asyncio
import json
import re
import signal
import ssl
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from click.testing import CliRunner

from cli.table import main
from installation.certificates import Certificates, Wanted
from local import status
from runtime.tls import LOOK_S
from tests.clock import ManualClock
from tests.faults.stack_fixtures import Running, running_stack
from tests.faults.test_rolling_restart import PATIENT, PATIENT_S, Witness, restarted
from wire.keys import OPERATOR

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]

WAIT_S = 30.0


async def hongbao(running: Running, *words: str) -> tuple[int, Any]:
    """Run a command as an operator does; returns status and what it says as JSON."""
    done = await asyncio.to_thread(CliRunner().invoke, main, [*words, "--json", "--data", str(running.data)])
    # The processes of this test log to the same output.
    start = re.search(r"^[{\[]$|^[{\[][{\[\"]", done.stdout, re.MULTILINE)
    return done.exit_code, json.JSONDecoder().raw_decode(done.stdout, start.start())[0] if start else done.output


async def findings(running: Running) -> list[str]:
    """What doctor finds about certificates: level, subject and sentence."""
    _, told = await hongbao(running, "doctor")
    found = [one for one in told["findings"] if one["check"] == "certificates"]
    return [f"{one['level']} {one['subject']}: {one['what']}" for one in found]


async def shown(url: str, running: Running) -> int:
    """The serial number of the certificate that a server shows."""
    tls = running.access.tls
    assert tls is not None
    host, _, port = url.removeprefix("https://").partition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=tls.client)
    try:
        return int(writer.get_extra_info("peercert")["serialNumber"], 16)
    finally:
        writer.close()


@pytest.mark.long
async def test_everything_works_over_tls(server_folder: Path) -> None:
    """Load, a restart in turn, drain, pause, hot envelopes, status, doctor and the audit; no request fails."""
    async with running_stack(
        server_folder / "data", sets=1, servers=2, gateways=2, env=PATIENT, tls=True, ops=True
    ) as one:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, one.stack.restart_as_asked)
        urls = [one.access.wallet_url, *(server.url for server in one.access.topology().sets[0].servers)]
        assert all(url.startswith("https://") for url in urls)
        for sender in range(4):
            await one.deposit(f"sender-{sender}", 100_000_000)
        async with Witness(one, seed=21, call_s=PATIENT_S) as crowd:
            async with crowd.busy(people=16, senders=3):
                looking = asyncio.ensure_future(crowd.look())
                await crowd.until(100)
                before = [await shown(url, one) for url in urls]
                assert (await hongbao(one, "installation", "certificates", "--renew"))[0] == 0
                async with asyncio.timeout(WAIT_S):
                    while set(before) & {await shown(url, one) for url in urls}:
                        await asyncio.sleep(0.2)
                await crowd.until(50)
                assert (await restarted(one)).error == ""
                assert (await hongbao(one, "dba", "drain", "set-1-a"))[0] == 0
                assert (await hongbao(one, "dba", "undrain", "set-1-a"))[0] == 0
                code, hot = await hongbao(one, "dba", "hot")
                assert (code, bool(hot)) == (0, True)
                await crowd.until(50)
                crowd.stop()
                await looking
            assert crowd.failed == Counter()
            await crowd.check()
        assert (await one.settled_audit()).holds
        assert (await status.status(one.stack.folder, one.access)).up
        assert await findings(one) == ["ok certificates: 8 are valid for 30 days"]
        await the_operators_page_sees_all(one)
        await nothing_is_served_without_tls(one, urls)


async def the_operators_page_sees_all(one: Running) -> None:
    """Its figures come from the parts, by TLS."""
    keys = json.loads((one.data / "secrets.json").read_text())["keys"]
    async with aiohttp.ClientSession() as session, asyncio.timeout(WAIT_S):
        url = one.stack.ops_url.removesuffix("/ops/")
        while True:
            async with session.get(
                f"{url}/ops/metrics", headers={"Authorization": f"Bearer {keys['METRICS_KEY']}"}
            ) as answer:
                text = await answer.text()
            up = dict(re.findall(r'^hongbao_part_up\{part="([^"]+)"\} (\S+)', text, re.MULTILINE))
            if {"set-1-a", "set-1-b", "wallet"} <= {name for name, value in up.items() if float(value) == 1}:
                return
            await asyncio.sleep(0.2)


async def nothing_is_served_without_tls(one: Running, urls: list[str]) -> None:
    """Neither to HTTP in the clear, nor to TLS without a certificate, nor to TLS 1.2."""
    bare = ssl.create_default_context(cafile=str(one.stack.folder.certificates / "ca.pem"))
    files = one.access.certificates.files(OPERATOR)
    assert files is not None
    old = ssl.create_default_context(cafile=str(files.ca))
    old.load_cert_chain(files.cert, files.key)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
        for url in urls:
            for path in ("/healthz", "/readyz", "/metrics", "/link"):
                with pytest.raises(aiohttp.ClientError):
                    await session.get(url.replace("https", "http") + path)
                for context in (bare, old):
                    with pytest.raises(aiohttp.ClientError):
                        await session.get(url + path, ssl=context)


@pytest.mark.long
async def test_a_certificate_that_may_not_be_used_is_said_and_serves_nobody(server_folder: Path) -> None:
    """A server's certificate is replaced by an expired one: doctor and logs say so, and renewing it heals all."""
    async with running_stack(server_folder / "data", sets=1, servers=1, tls=True) as one:
        await one.deposit("sender-0", 1_000_000)
        folder = Certificates(one.stack.folder.certificates)
        wanted = Wanted("set-1-a", "setnode/set-1", ("127.0.0.1",))
        log = one.stack.folder.log("set-1-a")
        past = ManualClock(datetime.now(UTC) - timedelta(days=400))
        Certificates(folder.folder, past).ensure([wanted], anew=True)
        async with asyncio.timeout(WAIT_S):
            while len(found := await findings(one)) < 2 or "has expired at" not in log.read_text():
                await asyncio.sleep(LOOK_S / 5)
        in_the_file, served = found
        assert re.match(r"wrong set-1-a: The certificate .*/set-1-a.pem has expired at .* UTC\.$", in_the_file)
        assert re.match(
            r"wrong set-1-a: What listens at https://127.0.0.1:\d+ has no certificate that is valid", served
        )
        told = await status.status(one.stack.folder, one.access)
        (away,) = [part for part in told.parts if part.name == "set-1-a"]
        assert "certificate" in away.detail
        folder.ensure([wanted])
        async with asyncio.timeout(WAIT_S):
            while not (await status.status(one.stack.folder, one.access)).up:
                await asyncio.sleep(0.2)
        assert [said[:2] for said in await findings(one)] == ["ok"]
