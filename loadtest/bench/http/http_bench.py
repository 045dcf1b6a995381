"""What the contenders run on: our stack, a database for the baselines beside it, and opens prepared as a file."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from installation import data_folder
from installation.access import Access
from installation.finding import find
from installation.keys import Secrets
from loadtest.baseline_server import Mode
from loadtest.baselines.books import Books
from loadtest.idle_stack import idle_stack
from loadtest.openloop import opens
from loadtest.wrk import client as wrk
from loadtest.wrk import prepared
from local.config import StackConfig
from local.service import Service, ServiceSpec
from local.stack import Stack
from machine import ports
from runtime import postgres
from wire.keys import GATEWAY

BASELINES = "baselines"
SET = "set-1"


@dataclass
class Prepared:
    """Envelopes and the file with the opens of all their shares; line `at` is the next to be sent."""

    key: str
    envelopes: list[int]
    shares: int
    path: Path
    at: int = 0

    @property
    def lines(self) -> int:
        """How many opens there are."""
        return len(self.envelopes) * self.shares


@dataclass
class HttpBench:
    """The running stack, the baselines, and what was seen; a turn takes `seconds`, one of creates `create_s`."""

    stack: Stack
    access: Access
    data: Path
    seconds: float
    create_s: float
    books: Books
    opens: dict[str, Prepared] = field(default_factory=dict)
    """By workload: `many` and `hot`."""
    offs: list[str] = field(default_factory=list)
    """What went wrong, as sentences; one is enough for the section to fail."""
    seen: dict[str, list[wrk.Fired]] = field(default_factory=dict)
    answered: int = 0
    """Opens that our stack answered."""

    async def prepare(self, key: str, envelopes: int, shares: int) -> None:
        """Make envelopes over HTTP and write the opens of all their shares: round robin, or one after the other."""
        made = await opens.create(self.access, envelopes, shares)
        path = self.data / f"opens-{key}.txt"
        await asyncio.to_thread(prepared.write_opens, self.access, made, path, shares, in_turn=key != "hot")
        self.opens[key] = Prepared(key, [int(one.envelope_id) for one in made], shares, path)

    def note(self, name: str, fired: wrk.Fired) -> None:
        """Keep what wrk saw."""
        self.seen.setdefault(name, []).append(fired)
        self.check(name, fired)

    def check(self, name: str, fired: wrk.Fired) -> None:
        """Record refused requests and broken connections."""
        if fired.refused or fired.broken:
            self.offs.append(f"{name}: {fired.refused} of {fired.requests} requests refused, {fired.broken} broken")

    @contextlib.asynccontextmanager
    async def served(self, mode: Mode, pool: int = 1) -> AsyncIterator[Service]:
        """Run a baseline's process for the block."""
        service = self._service(mode, pool)
        await service.start()
        try:
            yield service
        finally:
            await service.stop()

    def _service(self, mode: Mode, pool: int) -> Service:
        keys = Secrets.load(data_folder.locate(self.data).secrets).environment(GATEWAY, mode.value)
        env = {
            **keys,
            "HONGBAO_MODE": mode.value,
            "HONGBAO_POSTGRES_DSN": self.stack.postgres(SET).dsn("postgres", BASELINES),
            "HONGBAO_POOL": str(pool),
        }
        log = self.data / f"{mode.value}.log"
        return Service(ServiceSpec(mode.value, "loadtest.baseline_server", ports.LOOPBACK, ports.free_port(), env, log))


@contextlib.asynccontextmanager
async def started_http_bench(data: Path, seconds: float, create_s: float) -> AsyncIterator[HttpBench]:
    """Start a stack of one SET and one server, with a database for the baselines, for the block."""
    async with idle_stack(StackConfig(data=data, port=0, sets=1, servers=1)) as stack:
        superuser = await postgres.connect(stack.postgres(SET).dsn())
        try:
            await superuser.execute(f"CREATE DATABASE {BASELINES}")
        finally:
            await superuser.close(timeout=5.0)
        books = await Books.make(stack.postgres(SET).dsn("postgres", BASELINES))
        try:
            yield HttpBench(stack, find(data), data, seconds, create_s, books)
        finally:
            await books.close()
