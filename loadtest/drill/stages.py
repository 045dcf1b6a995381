"""The steps of the drill, each with its figures; `Drill` is the stack on which they run and what they have found."""

import asyncio
import contextlib
import json
import statistics
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from archive.keeper import Keeper
from archive.place import folder_of
from archive.restore import remove, restore
from archive.states import State
from cluster import roles
from cluster.access import Access
from cluster.commands.topology import ground_of
from cluster.rotations import today_of
from envelope.errors import HongbaoError, InvariantBroken
from gateway.shares import Shares
from loadtest.drill.past import Past, make_past
from loadtest.openloop.job import Job, run_job
from loadtest.openloop.opens import SHARES as GUEST_SHARES
from loadtest.openloop.opens import guests
from loadtest.proof import settled
from moving.moves import move_by_time, move_live
from rotation.drop import drop_day
from rotation.register import Operator
from rotation.steps import Rotation
from rotation.target import RotationTarget
from runtime import postgres
from runtime.clock import SystemClock
from schema import names
from schema.day_tables import AHEAD_DAYS, DayTables
from schema.names import Kind
from sharding.slots import database_name
from upkeep.look import look

SET = "set-1"
AGO_DAYS = 9
"""Old enough to be an ordinary day, and no name of it is that of a day made ahead."""
MORE_DAYS = 10
"""Of the layout, built to see what a month of it takes."""
READER_S = 0.8
"""How long somebody reads the day on purpose while it is to be detached: four times what a lock is waited for."""
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
class Drill:
    """`say` hears what is being done; `figures` and `failures` (sentences) are what came of it."""

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
        return today_of(self.access)

    def owner(self, server: str = SET) -> str:
        """Return the owner's DSN."""
        return self.access.set_dsn(server, roles.OWNER)

    def rotation(self) -> Rotation:
        """Return the rotation of the drilled SET, into the stack's own archive."""
        target = RotationTarget(
            SET,
            self.owner(),
            self.access.set_dsn("wallet", roles.AUDIT),
            partial(self.access.topology().databases_of, SET),
        )
        return Rotation(target, SystemClock(), Keeper(self.access.archive()))

    async def load(self) -> tuple[Past, Past]:
        """Make the two past days."""
        made = []
        for ago, claims in ((AGO_DAYS, self.size.claims), (AGO_DAYS + 1, self.size.small)):
            day = self.today - timedelta(days=ago)
            self.say(f"making {claims:,} paid claims of {day}")
            wallet = self.access.set_dsn("wallet", roles.OWNER)
            databases = self.access.topology().databases_of(SET, day)
            started = time.perf_counter()
            made.append(await make_past(self.owner(), wallet, databases, day, claims))
            self.figures.setdefault("load_s", round(time.perf_counter() - started, 1))
        return made[0], made[1]

    async def detach(self, large: Past, small: Past) -> None:
        """Prove, fence and detach the large day, then the small one with a reader in the way; opens go on."""
        rotation, watch_s = self.rotation(), self.size.watch_s
        for one in large.some[:40]:
            self._bodies[one] = await self.detail(one)
        self.say("opens of today, nothing else")
        async with self.traffic(self.size.rate, watch_s) as calm:
            await asyncio.sleep(0)
        self.figures["calm_p999_ms"] = calm["p999_ms"]
        self.say(f"proving {large.claims:,} claims")
        result = await rotation.run(large.day, self.today, BY, until=State.CLOSED)
        self.figures["prove_and_fence_s"] = result.seconds["close"]
        await rotation.run(small.day, self.today, BY, until=State.CLOSED)
        self.say("detaching under opens of today")
        async with self.traffic(self.size.rate, watch_s) as seen:
            await asyncio.sleep(1.0)
            result = await rotation.run(large.day, self.today, BY, until=State.DETACHED)
            self.figures["detach_s"] = result.seconds["detach"]
            async with self._reader(small.day):
                result = await rotation.run(small.day, self.today, BY, until=State.DETACHED)
            self.figures["detach_with_reader_s"] = result.seconds["detach"]
        self.figures["stall_p999_ms"] = seen["p999_ms"]
        self.figures["stall_most_ms"] = seen["most_ms"]

    async def store(self, large: Past, small: Past) -> None:
        """Export and verify both days."""
        rotation = self.rotation()
        self.say(f"exporting {large.claims:,} claims")
        result = await rotation.run(large.day, self.today, BY, until=State.EXPORTED)
        self.figures["export_per_s"] = round(large.claims / result.seconds["export"])
        self.say("reading them back")
        result = await rotation.run(large.day, self.today, BY, until=State.VERIFIED)
        self.figures["verify_per_s"] = round(large.claims / result.seconds["verify"])
        await rotation.run(small.day, self.today, BY)
        archive = self.access.archive().folder
        files = [folder_of(archive, xx=xx, day=large.day) / "claim.parquet" for xx in result.states]
        self.figures["bytes_per_claim"] = round(sum(path.stat().st_size for path in files) / large.claims, 1)
        await self._same("from cold tables")

    async def let_go(self, large: Past, small: Past) -> None:
        """Drop both days, read through to the archive, restore a database of one, make next month's same names."""
        rotation = self.rotation()
        self.say("dropping")
        for past in (large, small):
            await drop_day(rotation, past.day, self.today, BY, retention_days=0)
        await asyncio.sleep(6.0)  # setnodes look at the register every five seconds
        await self._same("from the archive")
        for one in large.some[100:102]:
            await self.detail(one)
        taken = []
        for one in large.some[40:90]:
            started = time.perf_counter()
            await self.detail(one)
            taken.append((time.perf_counter() - started) * 1000)
        self.figures["cold_read_ms"] = round(statistics.median(taken), 1)
        self.figures["cold_read_most_ms"] = round(max(taken), 1)
        await self._restored(large)
        await self._next_month(large)

    async def move(self) -> None:
        """Begin a move by time and make a live one, under opens; none may fail, none be answered twice differently."""
        held = self.access.topology().databases_of(SET)
        by_time, live = database_name(held[0]), database_name(held[1])
        seconds = 14.0
        self.say(f"moving {by_time} by time and {live} live, under {self.size.move_rate:,.0f} opens/s")
        async with self.traffic(self.size.move_rate, seconds) as seen:
            await asyncio.sleep(1.0)
            await move_by_time(ground_of(self.access), by_time, "set-2")
            moved = await move_live(ground_of(self.access), live, "set-2")
        self.figures["move_failed"] = seen["failed"]
        self.figures["move_opens_per_s"] = seen["rate"]
        self.figures["live_move_stall_s"] = round(moved.figures["stall_s"], 2)

    async def layout(self) -> None:
        """Build more days of the layout, and weigh the backends after what they have done."""
        self.say("building days of the layout")
        first = self.today + timedelta(days=AHEAD_DAYS + 1)
        databases = partial(self.access.topology().databases_of, SET)
        started = time.perf_counter()
        made = await DayTables(self.owner(), databases).ensure(first, ahead_days=MORE_DAYS - 1)
        a_day_s = (time.perf_counter() - started) / max(1, len(made))
        self.figures["build_31_days_s"] = round(a_day_s * 31, 1)
        found = await look(SET, self.access.set_dsn(SET))
        weights = [one.memory_bytes / one.connections for one in found.connections if one.memory_bytes]
        self.figures["backend_mb"] = round(max(weights, default=0) / 1024**2, 1)

    async def audit(self) -> None:
        """Prove all of it, hot, moved and archived."""
        self.say("audit")
        report = await settled(self.access)
        self.figures["audit_violations"] = report.count
        self.figures["audit_s"] = round(report.seconds, 1)
        self.failures += [f"{one.check} {one.subject}: {one.detail}" for one in report.violations[:5]]

    @contextlib.asynccontextmanager
    async def traffic(self, rate: float, seconds: float) -> AsyncIterator[dict[str, Any]]:
        """Let opens of today arrive at `rate` while the block runs, for `seconds`; then tell what they met."""
        some = await guests(self.access, int(rate * seconds) + GUEST_SHARES)
        job = Job(self.access.gateway_url, some, rate, seconds, CONNECTIONS)
        loading = asyncio.ensure_future(run_job(job, self.folder))
        seen: dict[str, Any] = {}
        try:
            yield seen
        finally:
            finding, tally = await loading
            latency = tally.latency["open"]
            lost = sum(tally.failures.values()) + finding.sent - tally.results["open"].get("opened", 0)
            seen |= {
                "p999_ms": round(latency.percentile(99.9), 1),
                "most_ms": round(latency.percentile(100), 1),
                "failed": lost,
                "rate": round(finding.rate),
            }
            if lost:
                self.failures.append(f"{lost} of {finding.sent} opens did not win: {tally.results['open']}")

    async def detail(self, envelope_id: int) -> dict[str, Any]:
        """Ask for an envelope as somebody who has its share token."""
        token = self._shares().token_of(envelope_id)
        headers = {"Authorization": f"Bearer {self.access.token('somebody')}", "X-Share-Token": token}
        url = f"{self.access.gateway_url}/v1/envelopes/{envelope_id}"
        async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as answer:
            told: dict[str, Any] = await answer.json()
            if answer.status != 200:  # noqa: PLR2004
                self.failures.append(f"detail of {envelope_id}: {answer.status} {json.dumps(told)}")
            return told

    def _shares(self) -> Shares:
        return Shares(self.access.key("SHARE_KEY"))

    async def _same(self, where: str) -> None:
        """Compare details with those from before the rotation: the same but for `archived`."""
        for one, before in self._bodies.items():
            told = await self.detail(one)
            if not told.pop("archived", False) or told != before:
                self.failures.append(f"the detail of {one} {where} is not what it was")

    @contextlib.asynccontextmanager
    async def _reader(self, day: date) -> AsyncIterator[None]:
        """Hold a lock on the day as a long report does, for READER_S."""
        connection = await postgres.connect(self.owner())
        transaction = connection.transaction()
        await transaction.start()
        await connection.fetchval(f"SELECT count(*) FROM {names.day_table(Kind.CLAIM, day)}")  # noqa: S608 - digits

        async def leave() -> None:
            await asyncio.sleep(READER_S)
            await transaction.rollback()

        leaving = asyncio.ensure_future(leave())
        try:
            yield
        finally:
            await leaving
            await connection.close(timeout=postgres.CONNECT_S)

    async def _restored(self, large: Past) -> None:
        xx = self.access.topology().databases_of(SET, large.day)[0]
        archive = self.access.archive()
        connection = await postgres.connect(self.owner())
        try:
            back = await restore(connection, *archive, xx=xx, day=large.day)
            rows = await connection.fetchval(f"SELECT count(*) FROM {back.schema}.claim")  # noqa: S608 - digits
            if rows != back.manifest.claims:
                self.failures.append(f"{back.schema} has {rows} claims, its archive {back.manifest.claims}")
            await remove(connection, xx=xx, day=large.day)
        finally:
            await connection.close(timeout=postgres.CONNECT_S)

    async def _next_month(self, large: Past) -> None:
        """Make the tables of the next date with the same names: empty, and the old day is still read."""
        coming = (large.day + timedelta(days=ahead) for ahead in range(28, 70))
        again = next(day for day in coming if day.day == large.day.day)
        databases = self.access.topology().databases_of(SET, again)
        await DayTables(self.owner(), databases).ensure(again, ahead_days=0)
        connection = await postgres.connect(self.owner())
        try:
            if await connection.fetchval(f"SELECT EXISTS (SELECT FROM {names.day_table(Kind.CLAIM, again)})"):  # noqa: S608 - digits
                self.failures.append(f"the tables of {again} hold rows of another month")
        finally:
            await connection.close(timeout=postgres.CONNECT_S)
        await self._same("after next month's tables were made")


async def run(drill: Drill) -> None:
    """Do all of it. What fails on purpose ends the drill with its sentence among the failures."""
    try:
        large, small = await drill.load()
        await drill.detach(large, small)
        await drill.store(large, small)
        await drill.let_go(large, small)
        await drill.move()
        await drill.layout()
        await drill.audit()
    except (HongbaoError, InvariantBroken) as error:
        drill.failures.append(f"{error.code}: {error.detail}")
