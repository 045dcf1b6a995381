"""Moves the clock of a sandbox that runs, and waits until what became due is done.

In this order, so that at no instant one part sees a time that another cannot bear:

1. The tables of the new day and the day after it are made. Where an old day still has their names (a move of weeks),
   they are made after the move, once rotation has taken that day out; creates are refused until then, before any money
   moves.
2. All databases are moved, each in a transaction; all are committed once all have been moved.
3. The clock's file is moved, and with it all processes at once. It is the last: it says where the sandbox is. A crash
   before it leaves databases that date rows a little late until the next start, which sets them by the file.

Databases before processes, never after: a fund dated before the present of a sweeper would look like a create that
died.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import date, datetime, timedelta
from typing import Final

import msgspec

from errors import HongbaoError, Refused, Unavailable
from installation.access import Access
from installation.data_folder import DataFolder
from local import running
from local.clock_bounds import check_latest
from local.clock_due import AHEAD_DAYS, Due, Left
from machine.file_lock import hold_lock
from runtime import postgres
from runtime.clock import from_ms, to_ms
from runtime.sandbox_clock import SandboxClock
from runtime.wording import duration
from schema import roles
from schema.day_tables import DayTables, known_days
from schema.sandbox import move as move_database
from sharding.ids import business_date
from sharding.topology import Topology

LOOK_S: Final = 0.1
"""Between two looks at what is left."""
FOLLOW_S: Final = 1.5
"""After tables that could be made only after the move: a setnode that has missed them looks again after a second
(`setnode.limits.DAYS_AGAIN_S`)."""
_OCCUPIED: Final = "day_table_occupied"


class ClockNow(msgspec.Struct, frozen=True, kw_only=True):
    """An installation's time. `zone`: that of its business days, in which `now` is written (ISO 8601)."""

    now: str
    zone: str
    business_date: str
    ahead_s: float

    def sentence(self) -> str:
        """Say it to a person."""
        if not self.ahead_s:
            return f"{self._local()}, as on this machine"
        return f"{self._local()}, {duration(round(self.ahead_s))} ahead of this machine"

    def _local(self) -> str:
        return f"{datetime.fromisoformat(self.now):%Y-%m-%d %H:%M:%S} ({self.zone})"


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """What a move did. `left`: what was still on its way when it ended to wait."""

    moved_s: float
    clock: ClockNow
    left: Left
    waited_s: float


def sandbox_clock(access: Access) -> SandboxClock:
    """Return the clock of a sandbox; raises Refused `not_a_sandbox`."""
    if not isinstance(access.clock, SandboxClock):
        raise Refused(
            "not_a_sandbox",
            "this is a real installation, whose clock is the machine's and is never moved; ./run --sandbox --data "
            "FOLDER starts a sandbox in a folder of its own",
        )
    return access.clock


def show(access: Access) -> ClockNow:
    """Return what time it is in an installation; one that is no sandbox is never ahead of the machine."""
    clock, zone = access.clock, access.topology().zone
    now = clock.now()
    return ClockNow(
        now=now.astimezone(zone).isoformat(timespec="seconds"),
        zone=zone.key,
        business_date=str(business_date(now, zone)),
        ahead_s=clock.ahead_ms / 1000 if isinstance(clock, SandboxClock) else 0.0,
    )


async def move(
    folder: DataFolder,
    access: Access,
    by: timedelta,
    wait_s: float,
    make_room: Callable[[], Awaitable[None]],
    progress: Callable[[str], None] = lambda _: None,
) -> Moved:
    """Move the clock ahead `by` so much, and wait for `wait_s` at most until what became due is done.

    `make_room` takes out days that have the names of the tables of today and AHEAD_DAYS more (`rotation.free_names`).

    The move is durable when this returns, whatever is left. Raises Refused `not_a_sandbox`, `not_up`, `move_too_far`,
    `clock_moves` (another move is at work), Unavailable if a database is away: nothing is moved then. Unavailable
    `clock_moved` if one goes away while what became due is waited for.
    """
    sandbox_clock(access)
    _check_up(folder)
    with (
        hold_lock(folder.path / "clock.lock", lambda _: Refused("clock_moves", "another move of the clock is at work")),
        contextlib.closing(SandboxClock(folder.sandbox_clock, writable=True)) as clock,
    ):
        ahead_ms = clock.ahead_ms + to_ms(from_ms(0) + by)
        there = clock.now() + by
        check_latest(there)
        progress("making the tables of the new day")
        late = not await _make_tables(access, there)
        await _move_databases(access, ahead_ms)
        clock.set_ahead(ahead_ms)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        left = await _settled(Due(access, clock.now()), begun + wait_s, make_room, progress)
        if late and left.nothing:
            await asyncio.sleep(FOLLOW_S)
        return Moved(
            moved_s=by.total_seconds(), clock=show(access), left=left, waited_s=round(loop.time() - begun, 1)
        )  # fmt: skip


def _check_up(folder: DataFolder) -> None:
    try:
        running.load(folder.running)
    except Refused as refusal:
        if refusal.code != "not_up":
            raise
        raise Refused(
            "not_up",
            f"nothing runs on {folder.path}: a sandbox's clock is moved while it runs; start it with ./run --sandbox",
        ) from None


async def _make_tables(access: Access, there: datetime) -> bool:
    """Make the tables of the day of `there` and AHEAD_DAYS more; return False where an old day has their names."""
    topology = access.topology()
    day = business_date(there, topology.zone)
    return all(await asyncio.gather(*(_make_tables_of(access, one.name, topology, day) for one in topology.sets)))


async def _make_tables_of(access: Access, set_name: str, topology: Topology, day: date) -> bool:
    dsn, needed = access.set_dsn(set_name, roles.OWNER), [day + timedelta(days=one) for one in range(AHEAD_DAYS + 1)]
    async with postgres.connected(dsn) as connection:
        known = await known_days(connection)
    # Looked at first: an attempt that is refused is an error in the log, and a move of weeks is none.
    if any(one.day == new.day and one != new for one in known for new in needed):
        return False
    try:
        await DayTables(dsn, topology.databases_of(set_name, day)).ensure(day, ahead_days=AHEAD_DAYS)
    except Refused as refusal:
        if refusal.code != _OCCUPIED:
            raise
        return False
    return True


async def _move_databases(access: Access, ahead_ms: int) -> None:
    """Move all databases, or none if one is away before the first is committed."""
    async with contextlib.AsyncExitStack() as stack:
        transactions = []
        for name in access.servers():
            dsn = access.dsn(name, roles.OWNER)
            connection = await stack.enter_async_context(postgres.connected(dsn, lock_timeout="10s"))
            transaction = connection.transaction()
            await transaction.start()
            await move_database(connection, ahead_ms)
            transactions.append(transaction)
        for transaction in transactions:
            await transaction.commit()


async def _settled(
    due: Due, end: float, make_room: Callable[[], Awaitable[None]], progress: Callable[[str], None]
) -> Left:
    """Wait until nothing of what was due is left, or until `end` (loop time); return what is left.

    Tables that are missing are made once all envelopes are closed and paid: before, no old day could be proven over.
    """
    loop, why = asyncio.get_running_loop(), ""
    while True:
        try:
            left = await due.left()
        except Unavailable as away:
            raise Unavailable(
                "clock_moved", f"the clock is moved; what became due cannot be asked for: {away.detail}"
            ) from away
        left = msgspec.structs.replace(left, why=why)
        if left.nothing or loop.time() >= end:
            return left
        progress(f"still on its way: {left.sentence()}")
        if left.without_tables and not (left.envelopes or left.payouts):
            why = await _tables_after_all(due.access, make_room)
        await asyncio.sleep(LOOK_S)


async def _tables_after_all(access: Access, make_room: Callable[[], Awaitable[None]]) -> str:
    """Make room for the tables of the day, and make them; return what stood in the way, "" if nothing did."""
    try:
        await make_room()
        await _make_tables(access, access.clock.now())
    except HongbaoError as error:
        return error.detail
    return ""
