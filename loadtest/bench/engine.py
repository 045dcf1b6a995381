"""Section (a): durable claims a second inside one SET, compared with the other ways to hand out shares.

Question: what does group commit over a claim log give, compared with locks, queues, and answers before durability?
Workload: one hot envelope after another of 10,000 shares with 1, 10, 100 and 1,000 opens in flight; 10,000 x 20 and
100,000 x 5 opened round robin with 8,000 in flight. A turn takes a fixed time; rates are wins over the time until the
last answer. All on one Postgres with fsync on, in rounds. Sketch: a claim of ours is about 150 bytes of WAL and three
index entries, a batch of 1,000 one fsync; a pessimistic one is five round trips of 60 µs and an fsync of its own.
Every turn ends with its money check; at the end every contender is killed in mid-run and its lost answers are counted.
"""

import secrets
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from statistics import median

from loadtest.baselines import copying, redis_client
from loadtest.baselines.books import Money
from loadtest.baselines.redis_server import Persistence
from loadtest.bench import losses, pools
from loadtest.bench.arena import Arena, redis_name, started_arena
from loadtest.bench.figures import Bench, Figures, Row, interleaved
from loadtest.bench.workloads import FEN_PER_SHARE, Workload, hot, many
from runtime import postgres
from runtime.clock import SystemClock
from sharding.ids import business_date, make_id
from sharding.slots import EMBEDDED

WAITING = (1, 10, 100, 1_000)
MANY_WAITING = 8_000
SPARE_SHARES = 4
"""Redis' own client opens random envelopes: with so many times the mean number of shares none is sold out."""
LONG_ROUNDS = 3
"""Making 100,000 envelopes takes longer than opening them."""

NAMES = {
    "ours": "this project",
    "pessimistic": "pessimistic lock",
    "optimistic": "optimistic version, tried again",
    "optimistic_once": "optimistic version, tried once",
    "fifo": "FIFO, a transaction per claim",
    "memory_first": "memory first, database behind",
    "redis_memory": "Redis + Lua, nothing on disk",
    "redis_everysec": "Redis + Lua, fsync each second",
    "redis_always": "Redis + Lua, fsync always",
    "redis_memory_c": "Redis + Lua, nothing on disk, C client",
    "redis_everysec_c": "Redis + Lua, fsync each second, C client",
    "redis_always_c": "Redis + Lua, fsync always, C client",
    "copy": "COPY of the same rows (the limit)",
}


def workloads(*, quick: bool) -> list[Workload]:
    """Return what is opened."""
    if quick:
        hots = [hot(waiting, envelopes=5, seconds=0.4 if waiting >= 100 else 0.25) for waiting in WAITING]  # noqa: PLR2004
        return [*hots, many("many", 5_000, 20, waiting=MANY_WAITING, seconds=0.8)]
    return [
        *(hot(waiting, envelopes=12, seconds=1.0) for waiting in WAITING),
        many("many", 10_000, 20, waiting=MANY_WAITING, seconds=3.0),
        many("many5", 100_000, 5, waiting=MANY_WAITING, seconds=3.0),
    ]


@dataclass
class Turns:
    """The contenders' turns at one workload, and what their checks found."""

    arena: Arena
    workload: Workload
    checks: list[tuple[str, str, Money]] = field(default_factory=list)
    settled: dict[str, list[float]] = field(default_factory=dict)
    """Wins over the time until they were in Postgres, for those that answer before."""

    def all(self) -> dict[str, Callable[[], Awaitable[float]]]:
        """Return the contenders by name, in the order of their turns."""
        found: dict[str, Callable[[], Awaitable[float]]] = {"ours": self._ours}
        found |= {name: partial(self._baseline, name) for name in self.arena.baselines}
        if self.workload.key in ("hot1000", "many", "many5"):
            found |= {f"{redis_name(one)}_c": partial(self._redis_client, one) for one in Persistence}
            found["copy"] = self._copy
        return found

    def _note(self, name: str, money: Money) -> None:
        self.checks.append((self.workload.key, name, money))

    async def _ours(self) -> float:
        rate, money = await self.arena.hongbao.turn(self.workload)
        self._note("ours", money)
        return rate

    async def _baseline(self, name: str) -> float:
        run, settled_s, money = await self.arena.run(name, self.workload)
        self._note(name, money)
        self.settled.setdefault(name, []).append(len(run.wins) / settled_s)
        return run.per_second

    async def _redis_client(self, persistence: Persistence) -> float:
        workload, baseline = self.workload, self.arena.redis_baseline(persistence)
        envelopes = 1 if workload.hot else workload.envelopes
        requests = int(_CLIENT_PER_SECOND * workload.seconds)
        shares = SPARE_SHARES * max(1, requests // envelopes)
        await baseline.prepare(range(envelopes), shares, shares * FEN_PER_SHARE)
        rate = await redis_client.ask(
            self.arena.redis[persistence], baseline.pop_sha, envelopes=envelopes, requests=requests
        )
        await baseline.settle()
        self._note(f"{redis_name(persistence)}_c", await self.arena.books.balance(await baseline.left_fen()))
        return rate

    async def _copy(self) -> float:
        workload = self.workload
        # Rows of claims need no headers.
        day = business_date(SystemClock().now())
        first = secrets.randbelow(10**9) * 9
        envelopes = [make_id(day, first + number, number % EMBEDDED.slots) for number in range(workload.envelopes)]
        asks = islice(workload.asks(envelopes), _COPY_ROWS)
        claims = copying.rows(asks, workload.shares, FEN_PER_SHARE)
        connection = await postgres.connect(self.arena.dsn)
        try:
            before = await connection.fetchval("SELECT count(*) FROM claim")
            rate = await copying.copy(connection, claims)
            stored = await connection.fetchval("SELECT count(*) FROM claim") - before
        finally:
            await connection.close(timeout=5.0)
        self._note("copy", Money(len(claims), stored, max(0, len(claims) - stored), 0, 0))
        return rate


_CLIENT_PER_SECOND = 20_000
"""Requests of Redis' own client for each second of a turn, so that a slow disk does not make it endless."""
_COPY_ROWS = 100_000


async def measure(bench: Bench) -> Figures:
    """Run everything; returns medians and runs by workload and contender."""
    chosen = workloads(quick=bench.quick)
    figures: Figures = {"workloads": {}, "names": NAMES}
    checks: list[tuple[str, str, Money]] = []
    async with started_arena(bench.scratch("engine")) as arena:
        bench.say("pools")
        hottest = next(one for one in chosen if one.key == "hot100")
        crowd = next(one for one in chosen if one.key == "many")
        figures["sweep"] = await pools.sweep(arena, hottest, crowd, 0.25 if bench.quick else 1.0)
        figures["pools"] = {f"{name}_{'hot' if at_one else 'many'}": n for (name, at_one), n in arena.best.items()}
        for workload in chosen:
            bench.say(workload.title)
            turns = Turns(arena, workload, checks)
            seen = await interleaved(_rounds(bench, workload), turns.all())
            for name, rates in turns.settled.items():
                seen[name]["settled"] = median(rates)
            figures["workloads"][workload.key] = {**asdict(workload), "contenders": seen}
        bench.say("kills")
        figures["losses"] = {
            **await losses.of_baselines(arena, hottest),
            "ours": await losses.of_hongbao(arena, hottest),
        }
    broken = [(key, name, money) for key, name, money in checks if not money.holds]
    figures["checks"] = len(checks)
    figures["broken"] = [{"workload": key, "contender": name, **asdict(money)} for key, name, money in broken]
    bench.audit(
        "engine",
        holds=not broken and not figures["losses"]["ours"]["lost"],
        unreconciled_fen=sum(money.unreconciled_fen for _, _, money in broken),
    )
    return figures


def _rounds(bench: Bench, workload: Workload) -> int:
    """Return how often each contender has its turn: seldom where a turn is long, or no promise hangs on it."""
    if workload.key == "many5":
        return min(bench.rounds, LONG_ROUNDS)
    return 1 if bench.quick and workload.key in ("hot1", "hot10") else bench.rounds


def rows(figures: Figures) -> Iterable[Row]:
    """Show each workload's contenders beside ours, then what kills lost."""
    for workload in figures["workloads"].values():
        contenders = workload["contenders"]
        ours = contenders["ours"]["median"]
        for name, seen in contenders.items():
            more = "" if name == "ours" else f"ours / this: {_ratio(ours, seen['median'])}"
            if name == "memory_first" or (name.startswith("redis") and "settled" in seen):
                more += f", in Postgres {seen['settled']:,.0f} /s"
            yield Row(f"{workload['title']}: {NAMES[name]}", f"{seen['median']:,.0f} /s", more)
    for name, found in figures["losses"].items():
        yield Row(f"killed in mid-run: {NAMES[name]}", f"{found['lost']:,} lost", f"of {found['answered']:,} answered")
    for one in figures["broken"]:
        yield Row(f"money check of {one['contender']} at {one['workload']}", "fails", str(one))


def _ratio(ours: float, theirs: float) -> str:
    return f"{ours / theirs:.2f}" if theirs else "none"
