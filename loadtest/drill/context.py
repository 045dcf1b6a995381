"""What the steps of the drill share: the stack, the figures found, traffic, details, rotation."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from archive.adapter import ArchiveAdapter
from gateway.identity.share_tokens import ShareTokens
from installation.access import Access
from loadtest.openloop.job import Job, run_job
from loadtest.openloop.opens import SHARES as GUEST_SHARES
from loadtest.openloop.opens import guests
from rotation.register import Operator
from rotation.set_access import SetAccess
from rotation.steps import Rotation
from runtime.clock import SystemClock
from schema import roles

SET = "set-1"
CONNECTIONS = 64
BY = Operator("drill", "a drill on a stack of its own")


@dataclass(frozen=True)
class Size:
    """Claims of the large past day and of the small one; `rate` opens a second of today meanwhile."""

    claims: int = 1_000_000
    small: int = 20_000
    slots: int = 500
    rate: float = 500.0
    move_rate: float = 2_000.0
    watch_s: float = 6.0


QUICK = Size(claims=100_000, small=4_000, slots=100, rate=200.0, move_rate=500.0, watch_s=4.0)


@dataclass
class DrillContext:
    """One drill on a running stack: `say` shows progress, `figures` and `failures` (sentences) are its results."""

    access: Access
    size: Size
    folder: Path
    say: Callable[[str], None]
    figures: dict[str, Any] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    _bodies: dict[int, dict[str, Any]] = field(default_factory=dict)

    @property
    def today(self) -> date:
        """The business date."""
        return self.access.today()

    def owner(self, server: str = SET) -> str:
        """Return the owner's DSN."""
        return self.access.set_dsn(server, roles.OWNER)

    def rotation(self) -> Rotation:
        """Return the rotation of the drilled SET, into the stack's own archive."""
        set_access = SetAccess(
            SET,
            self.owner(),
            self.access.set_dsn("wallet", roles.AUDIT),
            partial(self.access.topology().databases_of, SET),
        )
        return Rotation(set_access, SystemClock(), ArchiveAdapter(self.access.archive()))

    @contextlib.asynccontextmanager
    async def traffic(self, rate: float, seconds: float) -> AsyncIterator[dict[str, Any]]:
        """Let opens of today arrive at `rate` for `seconds` beside the block; the dict is filled when both end."""
        some = await guests(self.access, int(rate * seconds) + GUEST_SHARES)
        job = Job(self.access.gateway_url, some, rate, seconds, CONNECTIONS)
        loading = asyncio.ensure_future(run_job(job, self.folder))
        seen: dict[str, Any] = {}
        try:
            yield seen
        finally:
            finding, tally = await loading
            latency = tally.latency["open"]
            lost = finding.sent - tally.results["open"].get("opened", 0)
            seen |= {
                "p999_ms": round(latency.percentile(99.9), 1),
                "most_ms": round(latency.percentile(100), 1),
                "failed": lost,
                "rate": round(finding.rate),
            }
            if lost:
                self.failures.append(f"{lost} of {finding.sent} opens did not win: {tally.results['open']}")

    async def remember(self, envelope_ids: Sequence[int]) -> None:
        """Keep the details of envelopes as they are before the rotation."""
        for one in envelope_ids:
            self._bodies[one] = await self.detail(one)

    async def compare(self, where: str) -> None:
        """Compare the details kept with those of now; they must be the same but for `archived`."""
        for one, before in self._bodies.items():
            told = await self.detail(one)
            if not told.pop("archived", False) or told != before:
                self.failures.append(f"the detail of {one} {where} is not what it was")

    async def detail(self, envelope_id: int) -> dict[str, Any]:
        """Request an envelope's detail as a user who has its share token."""
        token = ShareTokens(self.access.key("SHARE_KEY")).token_of(envelope_id)
        headers = {"Authorization": f"Bearer {self.access.token('somebody')}", "X-Share-Token": token}
        url = f"{self.access.gateway_url}/v1/envelopes/{envelope_id}"
        async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as answer:
            told: dict[str, Any] = await answer.json()
            if answer.status != 200:  # noqa: PLR2004
                self.failures.append(f"detail of {envelope_id}: {answer.status} {json.dumps(told)}")
            return told
