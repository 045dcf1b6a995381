"""Opens that are prepared in a file and fired by wrk, each once, while something else is measured."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Final

from installation.access import Access
from installation.finding import find
from loadtest.bench.figures import Bench
from loadtest.idle_stack import idle_stack
from loadtest.openloop import opens
from loadtest.openloop.opens import Envelope
from loadtest.run_proof import all_paid
from loadtest.wrk import client as wrk
from loadtest.wrk import prepared
from local.config import StackConfig
from local.stack import Stack

SHARES: Final = 10_000


@dataclass
class Opening:
    """A running stack, and the prepared opens of envelopes of SHARES shares; `at` is the next."""

    stack: Stack
    access: Access
    folder: Path
    made: Sequence[Envelope]
    path: Path
    offs: list[str] = field(default_factory=list)
    at: int = 0

    async def opens_per_s(self, seconds: float) -> float:
        """Open as fast as answers come."""
        fired = await wrk.fire_opens(self.access.gateway_url, seconds, self.folder, self.path, skip=self.at)
        self.at += fired.requests + wrk.CONNECTIONS
        if fired.refused or fired.broken:
            self.offs.append(f"{fired.refused} opens refused, {fired.broken} broken")
        if self.at > len(self.made) * SHARES:
            self.offs.append("the prepared opens did not last, later ones were repeats")
        await all_paid(self.access)
        return fired.per_second


@contextlib.asynccontextmanager
async def opening(bench: Bench, name: str, config: StackConfig, wanted: int, more: int = 1) -> AsyncIterator[Opening]:
    """Run a stack with so many opens prepared, of one envelope after the other, and `more` envelopes."""
    async with idle_stack(config) as stack:
        folder = bench.scratch(f"{name}-opens")
        access = find(config.data)
        made = await opens.create(access, ceil(wanted / SHARES) + more, SHARES)
        path = folder / "opens.txt"
        await asyncio.to_thread(prepared.write_opens, access, made, path, SHARES, in_turn=False)
        yield Opening(stack, access, folder, made, path)
