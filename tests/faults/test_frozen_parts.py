"""Each part in turn stands still for seconds while everybody is busy: only calls that need it fail, and say so."""

import asyncio
import contextlib
import os
import signal
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from sharding.ids import parse_id
from sharding.topology import load
from tests.faults.stack_fixtures import Crowd, Running, running_stack
from tests.sizes import sized

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]
FROZEN_S = float(sized(10, 4))
ANSWER_S = 8.0

CREATE_S = 2.0
"""How long one waits for a create: which SET it is for is not chosen, and the next one may be for the other."""

GAVE_UP = "none"
WALLET_AWAY = {GAVE_UP, "wallet_unavailable", "outcome_unknown", "busy", "database_unavailable"}
SET_AWAY = {
    GAVE_UP,
    "outcome_unknown",
    "no_server",
    "busy",
    "database_unavailable",
    "envelope_unavailable",
    "peer_down",
}
EVERYTHING = {"create set-1", "create set-2", "open set-1", "open set-2", "detail set-1", "detail set-2", "balance"}
MAY_FAIL = {
    "wallet": {"create set-1": WALLET_AWAY, "create set-2": WALLET_AWAY, "balance": WALLET_AWAY},
    "postgres-wallet": {"create set-1": WALLET_AWAY, "create set-2": WALLET_AWAY, "balance": WALLET_AWAY},
    "memcached": {},
    "set-1-a": {"create set-1": SET_AWAY, "open set-1": SET_AWAY, "detail set-1": SET_AWAY},
    "postgres-set-1": {"create set-1": SET_AWAY, "open set-1": SET_AWAY, "detail set-1": SET_AWAY},
}
"""By part: the calls that need it, and the codes with which they may fail."""
MUST_FAIL = {"wallet": "balance", "postgres-wallet": "balance", "postgres-set-1": "open set-1"}
"""Without these the part was not frozen at all."""


class Prober(Crowd):
    """Makes single calls without a repeat and notes their codes, by what was asked for."""

    def name_of_set(self, envelope_id: str) -> str:
        topology = load(self.running.stack.folder.topology)
        return topology.set_for(parse_id(envelope_id, topology.layout)).name

    async def once(
        self, method: str, path: str, user: str, body: Any = None, *, within_s: float = ANSWER_S, **headers: str
    ) -> tuple[str, Any]:
        """Return the code of the answer ("" if it is good, GAVE_UP without one), and its body."""
        headers["Authorization"] = f"Bearer {self.running.access.token(user)}"
        url = self.running.access.gateway_url + path
        try:
            async with (
                asyncio.timeout(within_s),
                self._session.request(method, url, json=body, headers=headers) as answer,
            ):
                told = await answer.json(content_type=None)
                return ("" if answer.status < 500 else told["code"]), told
        except (aiohttp.ClientError, TimeoutError):
            return GAVE_UP, None

    async def probe(self, until: float) -> dict[str, Counter[str]]:
        """Ask for everything, over and over, until an instant of the loop; return the codes by call."""
        codes: dict[str, Counter[str]] = defaultdict(Counter)
        envelopes = {
            name: [one for one in self.envelopes if self.name_of_set(one["envelope_id"]) == name][-20:]
            for name in ("set-1", "set-2")
        }

        async def keep(work: Any) -> None:
            turn = 0
            while asyncio.get_running_loop().time() < until:
                turn += 1
                name, code = await work(turn)
                codes[name][code] += 1
                await asyncio.sleep(0.05)

        async def create(_turn: int) -> tuple[str, str]:
            key = uuid.uuid4().hex
            path, body = "/v1/envelopes", {"kind": "lucky", "total_fen": 100, "count": 2}
            code, told = await self.once("POST", path, "sender-0", body, within_s=CREATE_S, **{"Idempotency-Key": key})
            # Of one that failed it is not known which SET it was for: both need what all creates need.
            name = self.name_of_set(told["envelope_id"]) if not code else "set-1"
            return f"create {name}", code

        async def balance(_turn: int) -> tuple[str, str]:
            return "balance", (await self.once("GET", "/v1/me/wallet", "sender-0"))[0]

        def opens(name: str) -> Any:
            async def work(turn: int) -> tuple[str, str]:
                one = envelopes[name][turn % len(envelopes[name])]
                path = f"/v1/envelopes/{one['envelope_id']}/open"
                user = f"late-{uuid.uuid4().hex[:8]}"
                return f"open {name}", (await self.once("POST", path, user, {"share_token": one["share_token"]}))[0]

            return work

        def details(name: str) -> Any:
            async def work(turn: int) -> tuple[str, str]:
                one = envelopes[name][turn % len(envelopes[name])]
                path = f"/v1/envelopes/{one['envelope_id']}"
                return f"detail {name}", (
                    await self.once("GET", path, "anyone", **{"X-Share-Token": one["share_token"]})
                )[0]

            return work

        await asyncio.gather(
            *map(
                keep,
                [*[create] * 8, balance, *(kind(name) for kind in (opens, details) for name in ("set-1", "set-2"))],
            )
        )
        return codes

    async def well(self) -> None:
        """Wait until everything is answered again."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(60):
            while True:
                codes = await self.probe(loop.time() + 0.5)
                if not any(code for seen in codes.values() for code in seen):
                    return


def _family(pid: int) -> list[int]:
    """Return a process and all below it."""
    below: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                below[int((entry / "stat").read_text().rpartition(")")[2].split()[1])].append(int(entry.name))
    found = [pid]
    for one in found:
        found += below[one]
    return found


@contextlib.contextmanager
def frozen(running: Running, name: str) -> Iterator[None]:
    """Stop a part, with all its processes, for the block."""
    (part,) = [one for one in running.stack._parts() if one.name == name]
    pids = _family(part.pid)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


async def test_one_parts_standstill_stays_with_that_part(server_folder: Path) -> None:
    """Wallet, memcached, a setnode, a SET's Postgres, the wallet's: what needs it not is answered."""
    async with running_stack(server_folder / "data", sets=2, servers=2) as running:
        for sender in range(4):
            await running.deposit(f"sender-{sender}", 100_000_000)
        prober = Prober(running, seed=28)
        async with prober.busy(people=6):
            await prober.until(80)
            for name, may_fail in MAY_FAIL.items():
                with frozen(running, name):
                    codes = await prober.probe(asyncio.get_running_loop().time() + FROZEN_S)
                wrong = {
                    f"{call}: {code}": number
                    for call, seen in codes.items()
                    for code, number in seen.items()
                    if code and code not in may_fail.get(call, ())
                }
                assert wrong == {}, f"{name} frozen"
                assert set(codes) >= EVERYTHING - set(may_fail), (name, codes)
                if name in MUST_FAIL:
                    assert any(codes[MUST_FAIL[name]].keys() - {""}), name
                await prober.well()
        async with aiohttp.ClientSession() as session:
            prober._session = session
            await prober.check()
        assert (await running.settled_audit()).holds
