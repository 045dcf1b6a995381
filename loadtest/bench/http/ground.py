"""What the contenders stand on: our running stack, the rivals' tables beside it, and opens prepared as a file."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from cluster.access import Access, find
from cluster.assembly.config import StackConfig
from cluster.assembly.stack import Stack
from cluster.machine import datafolder, ports
from cluster.machine.account import server_account
from cluster.machine.keys import Secrets
from cluster.supervision.services import Service, ServiceSpec
from loadtest import crowd, wrk
from loadtest.openloop import opens
from loadtest.quiet import quiet_stack
from loadtest.rival_server import Mode
from loadtest.rivals.books import Books
from runtime import postgres

RIVALS = "rivals"
SET = "set-1"


@dataclass
class Prepared:
    """Envelopes and the file with the opens of all their shares; `at` is the line that is next."""

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
class Ground:
    """The running stack and the rivals beside it, with what was seen; `create_s` is how long creates have a turn."""

    stack: Stack
    access: Access
    data: Path
    seconds: float
    create_s: float
    books: Books
    opens: dict[str, Prepared] = field(default_factory=dict)
    """By workload: `many` and `hot`."""
    offs: list[str] = field(default_factory=list)
    """What was not as it should be, as sentences."""
    seen: dict[str, list[wrk.Fired]] = field(default_factory=dict)
    told: int = 0
    """Opens that our stack answered."""

    async def prepare(self, key: str, envelopes: int, shares: int) -> None:
        """Make envelopes over HTTP and write the opens of all their shares: round robin, or one after the other."""
        made = await opens.create(self.access, envelopes, shares)
        path = self.data / f"opens-{key}.txt"
        await asyncio.to_thread(crowd.write_opens, self.access, made, path, shares, in_turn=key != "hot")
        self.opens[key] = Prepared(key, [int(one.envelope_id) for one in made], shares, path)

    def note(self, name: str, fired: wrk.Fired) -> None:
        """Keep what wrk saw."""
        self.seen.setdefault(name, []).append(fired)
        self.check(name, fired)

    def check(self, name: str, fired: wrk.Fired) -> None:
        """Note it where wrk was not always answered as it should be."""
        if fired.refused or fired.broken:
            self.offs.append(f"{name}: {fired.refused} of {fired.requests} requests refused, {fired.broken} broken")

    @contextlib.asynccontextmanager
    async def served(self, mode: Mode, pool: int = 1) -> AsyncIterator[Service]:
        """Run a rival's process for the block."""
        service = self._service(mode, pool)
        await service.start()
        try:
            yield service
        finally:
            await service.stop()

    def _service(self, mode: Mode, pool: int) -> Service:
        keys = Secrets.load(datafolder.choose(self.data, server_account()).secrets).environment()
        env = {
            **keys,
            "HONGBAO_MODE": mode.value,
            "HONGBAO_POSTGRES_DSN": self.stack.postgres(SET).dsn("postgres", RIVALS),
            "HONGBAO_POOL": str(pool),
        }
        log = self.data / f"{mode.value}.log"
        return Service(ServiceSpec(mode.value, "loadtest.rival_server", ports.LOOPBACK, ports.free_port(), env, log))


@contextlib.asynccontextmanager
async def ground(data: Path, seconds: float, create_s: float) -> AsyncIterator[Ground]:
    """Start a stack of one SET and one server, with a database for the rivals, for the block."""
    async with quiet_stack(StackConfig(data=data, port=0, sets=1, servers=1)) as stack:
        superuser = await postgres.connect(stack.postgres(SET).dsn())
        try:
            await superuser.execute(f"CREATE DATABASE {RIVALS}")
        finally:
            await superuser.close(timeout=5.0)
        books = await Books.make(stack.postgres(SET).dsn("postgres", RIVALS))
        try:
            yield Ground(stack, find(data), data, seconds, create_s, books)
        finally:
            await books.close()
