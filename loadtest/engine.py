"""One SET from inside: a setnode in this process on real Postgres and memcached, without HTTP, links and wallet.

What stands between a request and its commit is all here: registry → actor → group commit → Postgres with fsync on.
`bench.ours` asks it.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cluster import roles
from cluster.memcached import Memcached, MemcachedSpec
from cluster.postgres import Postgres, PostgresSpec
from envelope.claim_log import ClaimLog
from envelope.split import SPLIT_VERSION, Split
from envelope.terms import Kind, Terms
from runtime.clock import SystemClock
from schema.day_tables import DayTables
from schema.migrate import migrate_set
from setnode.service import Setnode, SetnodeSettings, running
from sharding.ids import business_date, make_id
from sharding.topology import ServerSpec, SetSpec, Topology, dump

SLOTS = 100
CREATE_CHUNK = 1_000


@dataclass(frozen=True)
class Parts:
    """What runs: one setnode in this process, its Postgres, and the DSN of the database's owner."""

    node: Setnode
    postgres: Postgres
    owner: str


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
