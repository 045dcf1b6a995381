"""How many opens a second go over HTTP, with everything on this machine.

Question: what do gateway, link, setnode, group commit and Postgres carry together, while the wallet pays out behind,
and wrk asks from the same cores? Workload: envelopes of 20 shares, opened round robin by as many users over 256
keep-alive connections; every request wins. Sketch: about 50 µs of aiohttp, 30 µs of our Python, 30 µs of Postgres and
30 µs of wallet an open. Requests are prepared, so that the client costs as little as it can. Ends with the audit.
"""

import asyncio
import re
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp

from cluster.access import Access, find
from cluster.account import server_account
from cluster.config import StackConfig
from cluster.programs import find_program
from cluster.stack import Stack
from envelope.errors import InvariantBroken, Unavailable

SHARES = 20
CONNECTIONS = 256
CREATE_AT_ONCE = 128
SETTLE_S = 120.0
_SCRIPT = Path(__file__).with_name("open.lua")


@dataclass(frozen=True)
class HttpResult:
    """One run: rates in requests a second, latencies in ms as the closed-loop client saw them."""

    opens: int
    opens_per_second: float
    creates_per_second: float
    p50_ms: float
    p99_ms: float
    connections: int
    audit_holds: bool
    unreconciled_fen: int


Watch = Callable[[Stack], AbstractAsyncContextManager[object]]
"""What goes round the fire: it sees the stack, and is left when the last open is answered."""


async def run(
    data: Path,
    *,
    envelopes: int = 8_000,
    seconds: int = 8,
    modules: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    watch: Watch = nullcontext,
) -> HttpResult:
    """Start a stack of one SET and one server, fill it, fire, drain, audit.

    `modules` and `env` go into the stack: which module to run for a kind of process, and what to tell all of them.
    """
    config = StackConfig(data=data, port=0, sets=1, servers=1, env=env or {})
    config = replace(config, modules={**config.modules, **(modules or {})})
    async with Stack(config) as stack:
        access = find(data)
        made, creates_per_second = await _create(access, envelopes)
        requests = await asyncio.to_thread(_prepare, data, access, made)
        async with watch(stack):
            said = await _fire(access, requests, seconds, data)
        report = await _settled(access)
    opens, rate = int(_number(r"(\d+) requests in", said)), _number(r"Requests/sec:\s+([\d.]+)", said)
    if "Non-2xx" in said or report.sums.claims < min(opens, envelopes * SHARES):
        raise InvariantBroken("every_open_wins", f"some requests were refused:\n{said}")
    return HttpResult(
        opens=opens,
        opens_per_second=rate,
        creates_per_second=creates_per_second,
        p50_ms=_latency("50%", said),
        p99_ms=_latency("99%", said),
        connections=CONNECTIONS,
        audit_holds=report.holds,
        unreconciled_fen=report.unreconciled_fen,
    )


async def _create(access: Access, count: int) -> tuple[list[dict[str, Any]], float]:
    async with access.wallet() as wallet:
        await wallet.deposit(access.order_no(), "host", count * SHARES * 100)
    made: list[dict[str, Any]] = []
    headers = {"Authorization": f"Bearer {access.token('host')}"}
    body = {"kind": "lucky", "total_fen": SHARES * 100, "count": SHARES}
    left = iter(range(count))

    async def sender(session: aiohttp.ClientSession) -> None:
        for _ in left:
            key = {**headers, "Idempotency-Key": uuid.uuid4().hex}
            async with session.post(f"{access.gateway_url}/v1/envelopes", json=body, headers=key) as response:
                if response.status != 201:  # noqa: PLR2004 - HTTP's Created
                    raise Unavailable("create_failed", await response.text())
                made.append(await response.json())

    started = time.perf_counter()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CREATE_AT_ONCE)) as session:
        await asyncio.gather(*(sender(session) for _ in range(CREATE_AT_ONCE)))
    return made, count / (time.perf_counter() - started)


def _prepare(data: Path, access: Access, made: list[dict[str, Any]]) -> Path:
    """Write the requests, one a line: ID, share token, bearer token."""
    tokens = [access.token(f"user-{number}") for number in range(SHARES)]
    path = data / "requests.txt"
    with path.open("w", encoding="ascii") as file:
        for token in tokens:
            file.writelines(f"{one['envelope_id']} {one['share_token']} {token}\n" for one in made)
    return path


async def _fire(access: Access, requests: Path, seconds: int, data: Path) -> str:
    wrk = await find_program("wrk", server_account(), data)
    process = await asyncio.create_subprocess_exec(
        str(wrk.path), "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "-s", str(_SCRIPT),
        access.gateway_url, "--", str(requests),
        stdout=asyncio.subprocess.PIPE, env=wrk.env() or None,
    )  # fmt: skip
    async with asyncio.timeout(seconds + 30):
        out, _ = await process.communicate()
    return out.decode()


async def _settled(access: Access) -> Any:
    async with asyncio.timeout(SETTLE_S):
        while True:
            report = await access.audit()
            if report.sums.in_flight == 0 or not report.holds:
                return report
            await asyncio.sleep(0.5)


def _number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    if found is None:
        raise Unavailable("wrk_failed", f"wrk said something else than expected:\n{text}")
    return float(found.group(1))


def _latency(cut: str, text: str) -> float:
    found = re.search(rf"{re.escape(cut)}\s+([\d.]+)(us|ms|s)", text)
    if found is None:
        raise Unavailable("wrk_failed", f"wrk said something else than expected:\n{text}")
    return float(found.group(1)) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[found.group(2)]
