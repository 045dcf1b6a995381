"""The steps of a day's way out: made, proven, detached under traffic, stored, read back, dropped, names reused."""

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator
from datetime import date, timedelta

from archive.restore import remove, restore
from archive.states import State
from archive.store import opened
from loadtest.drill.context import BY, SET, DrillContext
from loadtest.drill.past import Past, make_past
from loadtest.rss import resident_bytes
from rotation.drop import drop_day
from runtime import postgres
from schema import names, roles
from schema.day_tables import DayTables
from schema.names import TableKind

AGO_DAYS = 9
"""Old enough to be an ordinary day, and no name of it is that of a day made ahead."""
READER_S = 0.8
"""How long a reader holds the day while it is to be detached: four times as long as a detach waits for a lock."""
WEIGHED_EVERY_S = 0.05
SEEN_S = 6.0
"""Setnodes read the register every five seconds; until then they answer from what they have in memory."""


async def load(drill: DrillContext) -> tuple[Past, Past]:
    """Make the two past days."""
    made = []
    for ago, claims in ((AGO_DAYS, drill.size.claims), (AGO_DAYS + 1, drill.size.small)):
        day = drill.today - timedelta(days=ago)
        drill.say(f"making {claims:,} paid claims of {day}")
        wallet = drill.access.set_dsn("wallet", roles.OWNER)
        databases = drill.access.topology().databases_of(SET, day)
        started = time.perf_counter()
        made.append(await make_past(drill.owner(), wallet, databases, day, claims))
        drill.figures.setdefault("load_s", round(time.perf_counter() - started, 1))
    return made[0], made[1]


async def detach(drill: DrillContext, large: Past, small: Past) -> None:
    """Prove, fence and detach the large day, then the small one with a reader in the way; opens go on."""
    rotation, watch_s = drill.rotation(), drill.size.watch_s
    await drill.remember(large.some[:40])
    drill.say("opens of today, nothing else")
    async with drill.traffic(drill.size.rate, watch_s) as calm:
        await asyncio.sleep(0)
    drill.figures["calm_p999_ms"] = calm["p999_ms"]
    drill.say(f"proving {large.claims:,} claims")
    result = await rotation.run(large.day, drill.today, BY, until=State.CLOSED)
    drill.figures["prove_and_fence_s"] = result.seconds["close"]
    await rotation.run(small.day, drill.today, BY, until=State.CLOSED)
    drill.say("detaching under opens of today")
    async with drill.traffic(drill.size.rate, watch_s) as seen:
        await asyncio.sleep(1.0)
        result = await rotation.run(large.day, drill.today, BY, until=State.DETACHED)
        drill.figures["detach_s"] = result.seconds["detach"]
        async with _reader(drill, small.day):
            result = await rotation.run(small.day, drill.today, BY, until=State.DETACHED)
        drill.figures["detach_with_reader_s"] = result.seconds["detach"]
    drill.figures["stall_p999_ms"] = seen["p999_ms"]
    drill.figures["stall_most_ms"] = seen["most_ms"]


async def store(drill: DrillContext, large: Past, small: Past) -> None:
    """Export and verify both days."""
    rotation = drill.rotation()
    async with _weighed() as seen:
        drill.say(f"exporting {large.claims:,} claims")
        result = await rotation.run(large.day, drill.today, BY, until=State.EXPORTED)
        drill.figures["export_per_s"] = round(large.claims / result.seconds["export"])
        drill.say("reading them back")
        result = await rotation.run(large.day, drill.today, BY, until=State.VERIFIED)
        drill.figures["verify_per_s"] = round(large.claims / result.seconds["verify"])
    drill.figures["export_mb"] = round(max(seen) / 1024**2, 1)
    await rotation.run(small.day, drill.today, BY)
    archive = drill.access.archive()
    stored = [opened(archive, xx=xx, day=large.day).manifest.files["claim.parquet"] for xx in result.states]
    drill.figures["bytes_per_claim"] = round(sum(file.size for file in stored) / large.claims, 1)
    await asyncio.sleep(SEEN_S)
    await drill.compare("from cold tables")


async def let_go(drill: DrillContext, large: Past, small: Past) -> None:
    """Drop both days, read from the archive, restore a database of one, make next month's tables of the same names."""
    rotation = drill.rotation()
    drill.say("dropping")
    for past in (large, small):
        await drop_day(rotation, past.day, drill.today, BY, retention_days=0)
    await asyncio.sleep(SEEN_S)
    await drill.compare("from the archive")
    for one in large.some[100:102]:
        await drill.detail(one)
    taken = []
    for one in large.some[40:90]:
        started = time.perf_counter()
        await drill.detail(one)
        taken.append((time.perf_counter() - started) * 1000)
    drill.figures["cold_read_ms"] = round(statistics.median(taken), 1)
    drill.figures["cold_read_most_ms"] = round(max(taken), 1)
    await _restored(drill, large)
    await _next_month(drill, large)


@contextlib.asynccontextmanager
async def _weighed() -> AsyncIterator[list[int]]:
    """Sample the resident set of this process, which exports and verifies, in bytes, while the block runs."""
    seen = [resident_bytes()]

    async def watch() -> None:
        while True:
            await asyncio.sleep(WEIGHED_EVERY_S)
            seen.append(resident_bytes())

    watching = asyncio.ensure_future(watch())
    try:
        yield seen
    finally:
        watching.cancel()


@contextlib.asynccontextmanager
async def _reader(drill: DrillContext, day: date) -> AsyncIterator[None]:
    """Hold a lock on the day as a long report does, for READER_S."""
    connection = await postgres.connect(drill.owner())
    transaction = connection.transaction()
    await transaction.start()
    await connection.fetchval(f"SELECT count(*) FROM {names.day_table(TableKind.CLAIM, day)}")  # noqa: S608 - digits

    async def leave() -> None:
        await asyncio.sleep(READER_S)
        await transaction.rollback()

    leaving = asyncio.ensure_future(leave())
    try:
        yield
    finally:
        await leaving
        await connection.close(timeout=postgres.CONNECT_S)


async def _restored(drill: DrillContext, large: Past) -> None:
    xx = drill.access.topology().databases_of(SET, large.day)[0]
    archive = drill.access.archive()
    connection = await postgres.connect(drill.owner())
    try:
        back = await restore(connection, *archive, xx=xx, day=large.day)
        rows = await connection.fetchval(f"SELECT count(*) FROM {back.schema}.claim")  # noqa: S608 - digits
        if rows != back.manifest.claims:
            drill.failures.append(f"{back.schema} has {rows} claims, its archive {back.manifest.claims}")
        await remove(connection, xx=xx, day=large.day)
    finally:
        await connection.close(timeout=postgres.CONNECT_S)


async def _next_month(drill: DrillContext, large: Past) -> None:
    """Make the tables of the next date with the same names: empty, and the old day is still read."""
    coming = (large.day + timedelta(days=ahead) for ahead in range(28, 70))
    again = next(day for day in coming if day.day == large.day.day)
    databases = drill.access.topology().databases_of(SET, again)
    await DayTables(drill.owner(), databases).ensure(again, ahead_days=0)
    connection = await postgres.connect(drill.owner())
    try:
        if await connection.fetchval(f"SELECT EXISTS (SELECT FROM {names.day_table(TableKind.CLAIM, again)})"):  # noqa: S608 - digits
            drill.failures.append(f"the tables of {again} hold rows of another month")
    finally:
        await connection.close(timeout=postgres.CONNECT_S)
    await drill.compare("after next month's tables were made")
