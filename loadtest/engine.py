"""How many durable opens a second one SET commits.

Question: what does the path registry → actor → group commit → Postgres (fsync on) carry on this machine, without
HTTP and links? Workloads: 10,000 envelopes of 20 shares, opened round robin; one hot envelope after another of
10,000 shares. All callers ask at once up to `WINDOW` opens in flight, which is what a burst looks like from inside.
Sketch: a claim is about 150 bytes of WAL and three index entries; a batch of 1,000 is one round trip and one fsync.
Ends with the money: the sums in Postgres are those of the envelopes, and every answer stands in the claim log.
"""

import asyncio
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from cluster import roles
from cluster.memcached import Memcached, MemcachedSpec
from cluster.postgres import Postgres, PostgresSpec
from envelope.claim_log import ClaimLog
from envelope.errors import InvariantBroken
from envelope.split import SPLIT_VERSION, Split
from envelope.terms import Kind, Terms
from runtime import postgres
from runtime.clock import SystemClock
from schema.day_tables import DayTables
from schema.migrate import migrate_set
from setnode.request import OUTCOMES
from setnode.service import Setnode, SetnodeSettings, running
from sharding.ids import business_date, make_id
from sharding.topology import ServerSpec, SetSpec, Topology, dump
from wire.messages import Op
from wire.server import Peer

WINDOW = 8_000
SLOTS = 100
CREATE_CHUNK = 1_000
_NAMES = [outcome.value for outcome in OUTCOMES]


@dataclass(frozen=True)
class EngineResult:
    """One measured workload."""

    workload: str
    opens: int
    seconds: float
    opens_per_second: float
    commits: int


class CountingPeer(Peer):
    """Counts answers and wakes the sender when half of the window is free."""

    def __init__(self) -> None:
        super().__init__("bench")
        self.outcomes: dict[str, int] = {}
        self.in_flight = 0
        self.roomy = asyncio.Event()

    def reply(self, number: int, *values: Any) -> None:
        """Count one answer."""
        del number
        self._count(_NAMES[values[0]])

    def fail(self, number: int, error: BaseException) -> None:
        """Count one failure."""
        del number
        self._count(getattr(error, "code", type(error).__name__))

    def _count(self, name: str) -> None:
        self.outcomes[name] = self.outcomes.get(name, 0) + 1
        self.in_flight -= 1
        if self.in_flight <= WINDOW // 2:
            self.roomy.set()


@dataclass(frozen=True)
class Parts:
    """What runs: one setnode in this process, its Postgres, and the DSN of the database's owner."""

    node: Setnode
    postgres: Postgres
    owner: str


@asynccontextmanager
async def engine(folder: Path) -> AsyncIterator[tuple[Setnode, str]]:
    """Start Postgres, memcached and one setnode in this process; yields it and the owner's DSN."""
    async with parts(folder, {}) as started:
        yield started.node, started.owner


@asynccontextmanager
async def parts(folder: Path, settings_of_postgres: Mapping[str, str]) -> AsyncIterator[Parts]:
    """Start Postgres with these settings over ours, memcached and one setnode in this process."""
    names = ("postgres", roles.OWNER, roles.AUDIT, roles.SETNODE)
    server = Postgres(
        PostgresSpec(
            "bench",
            folder / "pg" / "set",
            folder / "pg.log",
            {name: secrets.token_hex(8) for name in names},
            settings=settings_of_postgres,
        )
    )
    cache = Memcached(MemcachedSpec("memcached", folder / "memcached", folder / "memcached.log"))
    try:
        await server.start()
        await cache.start()
        await roles.ensure_roles(server)
        owner = server.dsn(roles.OWNER, roles.DATABASE)
        await migrate_set(owner)
        await DayTables(owner, range(SLOTS // 10)).ensure(business_date(SystemClock().now()), ahead_days=0)
        only = SetSpec("set-1", (ServerSpec("set-1-a", "http://127.0.0.1:1"),))
        topology = folder / "topology.json"
        dump(Topology(version=1, slots=SLOTS, sets=(only,), wallet_url="http://127.0.0.1:1"), topology)
        settings = SetnodeSettings(
            listen="127.0.0.1:0",
            topology=str(topology),
            set="set-1",
            server="set-1-a",
            postgres_dsn=server.dsn(roles.SETNODE, roles.DATABASE),
            memcached=cache.address,
            wallet_url="http://127.0.0.1:1",
            link_key="bench",
            password_key="bench",  # noqa: S106 - a throw-away database
        )
        async with running(settings) as node:
            yield Parts(node, server, owner)
    finally:
        await cache.stop()
        await server.stop("immediate")


async def make_envelopes(node: Setnode, count: int, shares: int, total_fen: int) -> list[int]:
    """Create envelopes past the wallet, through the lane of creates."""
    clock = SystemClock()
    today = business_date(datetime.now().astimezone())
    made: list[int] = []
    while len(made) < count:
        size = min(CREATE_CHUNK, count - len(made))
        now_ms = clock.now_ms()
        batch = [
            Terms(
                envelope_id=make_id(today, secrets.randbelow(10**10), (len(made) + number) % SLOTS),
                sender="sender",
                kind=Kind.LUCKY,
                split=Split.DOUBLE_MEAN,
                split_version=SPLIT_VERSION,
                total_fen=total_fen,
                count=shares,
                greeting="",
                created_at_ms=now_ms,
                opens_at_ms=now_ms,
                expires_at_ms=now_ms + 86_400_000,
                seed=secrets.token_bytes(32),
                create_key=secrets.token_hex(16),
            )
            for number in range(size)
        ]
        await asyncio.gather(*(node.create_lane.insert(terms) for terms in batch))
        for terms in batch:
            node.registry.adopt(ClaimLog(terms))
        made.extend(terms.envelope_id for terms in batch)
    return made


async def measure(node: Setnode, workload: str, opens: Iterator[tuple[int, str]], expected: int) -> EngineResult:
    """Send `opens` with up to WINDOW in flight; every one must be answered `opened`."""
    peer = CountingPeer()
    before = await _commits(node)
    started = time.perf_counter()
    for number, (envelope_id, user) in enumerate(opens):
        if peer.in_flight >= WINDOW:
            peer.roomy.clear()
            await peer.roomy.wait()
        peer.in_flight += 1
        node.room.handle(peer, number, Op.OPEN, [envelope_id, user, True, None])
    while peer.in_flight:
        peer.roomy.clear()
        await peer.roomy.wait()
    seconds = time.perf_counter() - started
    if peer.outcomes != {"opened": expected}:
        raise InvariantBroken("every_open_wins", f"{workload}: {peer.outcomes} where {expected} opened were expected")
    return EngineResult(workload, expected, seconds, expected / seconds, await _commits(node) - before)


async def check(owner_dsn: str) -> int:
    """Prove the sums in Postgres; returns the number of claims."""
    connection = await postgres.connect(owner_dsn)
    row = await connection.fetchrow(
        "SELECT (SELECT sum(total_fen) FROM envelope) AS paid_in, sum(amount_fen) AS claimed, count(*) AS claims,"
        " (SELECT sum(cardinality(seqs)) FROM payout_batch) AS intents FROM claim"
    )
    await connection.close()
    if row["paid_in"] != row["claimed"] or row["claims"] != row["intents"]:
        raise InvariantBroken("paid_in_is_claimed", str(dict(row)))
    return int(row["claims"])


async def _commits(node: Setnode) -> int:
    connection = await postgres.connect(node.settings.postgres_dsn)
    count = await connection.fetchval("SELECT count(*) FROM payout_batch")
    await connection.close()
    return int(count)


async def run(*, envelopes: int = 10_000, shares: int = 20, hot: int = 10, hot_shares: int = 10_000) -> dict[str, Any]:
    """Measure both workloads in a scratch folder; returns the figures."""
    with tempfile.TemporaryDirectory(prefix="hongbao-engine-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        async with engine(folder) as (node, owner):
            many_ids = await make_envelopes(node, envelopes, shares, shares * 100)
            many = ((one, f"user-{number}") for number in range(shares) for one in many_ids)
            results = [await measure(node, f"{envelopes} x {shares}", many, envelopes * shares)]
            hot_ids = await make_envelopes(node, hot, hot_shares, hot_shares * 100)
            burst = ((one, f"user-{number}") for one in hot_ids for number in range(hot_shares))
            results.append(await measure(node, f"hot {hot} x {hot_shares}", burst, hot * hot_shares))
            return {"results": [asdict(one) for one in results], "claims": await check(owner)}
