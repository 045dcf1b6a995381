"""A whole running stack for tests of the real thing, and people who keep using it while parts of it die."""

import asyncio
import contextlib
import random
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from audit.report import Report
from installation.access import Access, find
from local.config import StackConfig
from local.stack import Stack

CALL_S = 8.0
SETTLE_S = 40.0
PAUSE_S = 0.05
"""Between two calls of one of the people: they are to be there when something dies, not to be fast."""


@dataclass
class Running:
    """A stack and how to reach it."""

    stack: Stack
    access: Access
    data: Path

    async def deposit(self, user: str, fen: int) -> None:
        async with self.access.wallet() as wallet:
            await wallet.deposit(f"D{uuid.uuid4().hex}", user, fen)

    async def settled_audit(self) -> Report:
        """Audit until nothing is in flight."""
        async with asyncio.timeout(SETTLE_S):
            while True:
                report = await self.access.audit()
                if not report.holds or report.sums.in_flight == 0:
                    return report
                await asyncio.sleep(0.3)


@contextlib.asynccontextmanager
async def running_stack(data: Path, **config: Any) -> AsyncIterator[Running]:
    """Start everything on any free port; stop it at the end."""
    async with Stack(StackConfig(data=data, port=0, **{"ahead_days": 1, "slots": 40, **config})) as stack:
        yield Running(stack, find(data), data)


@pytest.fixture
async def running(server_folder: Path) -> AsyncIterator[Running]:
    """A fresh stack of 2 SETs with 2 servers each; its books must be clean at the end."""
    async with running_stack(server_folder / "data") as one:
        yield one


@dataclass
class Crowd:
    """People who create and open envelopes without pause, retry as phones do, and remember what they were told."""

    running: Running
    seed: int
    opened: dict[tuple[str, str], int] = field(default_factory=dict)
    envelopes: list[dict[str, Any]] = field(default_factory=list)
    answers: int = 0
    contradictions: list[str] = field(default_factory=list)
    patience_s: float = 60.0
    call_s: float = CALL_S
    _stop: bool = False

    def __post_init__(self) -> None:
        self._luck = random.Random(self.seed)
        self._tokens: dict[str, str] = {}

    @property
    def gateway_url(self) -> str:
        """Where they call."""
        return self.running.access.gateway_url

    @contextlib.asynccontextmanager
    async def busy(self, people: int = 24, senders: int = 4) -> AsyncIterator["Crowd"]:
        """Keep everybody busy for the block."""
        timeout = aiohttp.ClientTimeout(total=self.call_s)
        async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=200)) as session:
            self._session = session
            tasks = [asyncio.ensure_future(self._send_on(f"sender-{one}")) for one in range(senders)]
            tasks += [asyncio.ensure_future(self._open_on(f"user-{one}")) for one in range(people)]
            try:
                yield self
            finally:
                self._stop = True
                await asyncio.gather(*tasks)

    async def until(self, more: int) -> None:
        """Wait until `more` further answers have come."""
        goal = self.answers + more
        async with asyncio.timeout(SETTLE_S):
            while self.answers < goal:
                await asyncio.sleep(0.02)

    async def call(self, method: str, path: str, user: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """One call, repeated while the answer is "come again" or none at all."""
        if user not in self._tokens:
            self._tokens[user] = self.running.access.token(user)
        headers["Authorization"] = f"Bearer {self._tokens[user]}"
        url = self.gateway_url + path
        loop = asyncio.get_running_loop()
        end = loop.time() + self.patience_s
        while loop.time() < end:
            try:
                async with self._session.request(method, url, json=body, headers=headers) as response:
                    if response.status < 500:
                        self.answers += 1
                        return response.status, await response.json(content_type=None)
            except (aiohttp.ClientError, TimeoutError, OSError):
                pass
            await asyncio.sleep(self._luck.uniform(0.02, 0.2))
        raise AssertionError(f"{method} {path} found no answer in {self.patience_s:.0f} s")

    async def _send_on(self, sender: str) -> None:
        while not self._stop:
            count = self._luck.choice((5, 20, 50))
            body = {"kind": "lucky", "total_fen": count * 100, "count": count}
            key = uuid.uuid4().hex
            status, envelope = await self.call("POST", "/v1/envelopes", sender, body, **{"Idempotency-Key": key})
            if status == 201:
                self.envelopes.append(envelope)
            elif envelope.get("code") != "create_undone":
                self.contradictions.append(f"create: {status} {envelope}")
            await asyncio.sleep(2 * PAUSE_S)

    async def _open_on(self, user: str) -> None:
        while not self._stop:
            if not self.envelopes:
                await asyncio.sleep(0.02)
                continue
            await self.open(user, self._luck.choice(self.envelopes[-30:]))
            await asyncio.sleep(PAUSE_S)

    async def open(self, user: str, envelope: dict[str, Any]) -> None:
        """Open, and compare with what this user was told before."""
        envelope_id = envelope["envelope_id"]
        body = {"share_token": envelope["share_token"]}
        status, answer = await self.call("POST", f"/v1/envelopes/{envelope_id}/open", user, body)
        if status != 200:
            self.contradictions.append(f"open: {status} {answer}")
        elif answer["result"] in ("opened", "already_opened"):
            before = self.opened.setdefault((envelope_id, user), answer["amount_fen"])
            if before != answer["amount_fen"]:
                self.contradictions.append(f"{user} heard {before} and {answer['amount_fen']} of {envelope_id}")
        elif (envelope_id, user) in self.opened:
            self.contradictions.append(f"{user} had won {envelope_id} and then heard {answer['result']}")

    async def check(self) -> None:
        """Everything anybody was told must stand."""
        assert self.contradictions == []
        for envelope in self.envelopes:
            headers = {"X-Share-Token": envelope["share_token"]}
            envelope_id = envelope["envelope_id"]
            _, detail = await self.call("GET", f"/v1/envelopes/{envelope_id}", "sender-0", None, **headers)
            claims = {claim["user"]: claim["amount_fen"] for claim in detail["claims"]}
            told = {user: fen for (one, user), fen in self.opened.items() if one == envelope_id}
            assert told.items() <= claims.items(), envelope_id
