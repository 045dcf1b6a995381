"""Day tables: partitions for today's business date and the dates ahead, in every database of a SET.

A new day is built apart and attached in one transaction with short lock waits, so opens of other days do not wait for
it. A leaf's name recurs every month: while a leaf of that name still belongs to an older date, the new day is refused,
so two months never share a table.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from errors import Refused, Unavailable
from runtime import logs, metrics, postgres
from runtime.postgres import Connection
from schema import names
from schema.names import TableKind
from sharding.ids import end_id, first_id
from sharding.slots import slots_of

AHEAD_DAYS = 10
"""Days made ahead of today: about a week passes between the first failure and the page."""
ALARM_DAYS = 7
"""With fewer days ahead than this an operator should look within the day."""
PAGE_DAYS = 2
"""With fewer than this an operator is paged."""
LOCK_TIMEOUT = "2s"
"""For locks that conflict with opens: while DDL waits for a lock, every later statement on the table waits, too."""
MAKER_TIMEOUT = "60s"
"""For another maker's work, up to 1,000 slots of three days."""
CLOCKS_APART_DAYS = 1
"""Around midnight, or if this business zone is not the database's, two correct clocks may be one date apart."""
_LOCKED = "55P03"
_GRANT = "GRANT SELECT ON {} TO hongbao_setnode, hongbao_audit"

_log = logs.get("schema")
_occupied = metrics.counter("hongbao_day_tables_occupied_total", "Days refused: a table still holds an older date")

_KNOWN = """
SELECT child.relname FROM pg_inherits i
JOIN pg_class child ON child.oid = i.inhrelid JOIN pg_class parent ON parent.oid = i.inhparent
JOIN pg_namespace n ON n.oid = parent.relnamespace
WHERE n.nspname = 'public' AND parent.relname = 'envelope' AND NOT i.inhdetachpending
"""
_LEAVES = """
SELECT n.nspname || '.' || c.relname AS leaf, p.relname AS day_table FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class p ON p.oid = i.inhparent
WHERE n.nspname = ANY($1) AND c.relkind IN ('r', 'p')
"""


@dataclass(frozen=True)
class DayTables:
    """Makes day tables; `dsn` is the SET's owner, `databases` the xx that this SET has, or a function of the date."""

    dsn: str
    databases: Collection[int] | Callable[[date], Collection[int]]

    async def ensure(self, today: date, *, ahead_days: int = AHEAD_DAYS, by_clock: bool = False) -> list[date]:
        """Make missing tables for today and the days ahead; returns the days made. Idempotent; one maker at a time.

        Raises, after the other days were made: Refused `day_table_occupied` (a leaf's name still belongs to an older
        date), Refused `day_closed`, Unavailable `day_tables_locked` (a lock was not to be had). With `by_clock`,
        `today` comes from this machine's clock: Refused `clock_wrong`, and nothing is made, if the database's clock
        disagrees.
        """
        async with postgres.connected(self.dsn, lock_timeout=MAKER_TIMEOUT) as connection:
            if by_clock:
                await check_clock(connection, today)
            await _lock_makers(connection)
            closed = await registered_days(connection)
            made: list[date] = []
            failures: list[Refused | Unavailable] = []
            for day in (today + timedelta(days=offset) for offset in range(ahead_days + 1)):
                try:
                    _check_not_closed(day, closed)
                    if await _make_day(connection, day, self._on(day)):
                        made.append(day)
                except (Refused, Unavailable) as failure:
                    if isinstance(failure, Refused):
                        _occupied.inc()
                    _log.error("day tables not made", day=str(day), reason=failure.detail)
                    failures.append(failure)
        if failures:
            raise failures[0]
        return made

    def _on(self, day: date) -> list[int]:
        return sorted(self.databases(day) if callable(self.databases) else self.databases)


async def check_clock(connection: Connection, today: date) -> None:
    """Raise Refused `clock_wrong` if the database's business date is more than a day from `today`.

    Call it before steps by the clock that cannot be undone (days closed, names of leaves taken).
    """
    there = await connection.fetchval("SELECT business_today()")
    if there is not None and abs((there - today).days) > CLOCKS_APART_DAYS:
        raise Refused(
            "clock_wrong",
            f"it is {today} here and {there} in the database; nothing was done: set the wrong clock right",
        )


async def known_days(connection: Connection) -> set[date]:
    """Return the business dates whose tables are all attached (of these, `envelope` is the first to be detached)."""
    rows = await connection.fetch(_KNOWN)
    return {date.fromisoformat(row["relname"].rpartition("_")[2]) for row in rows}


async def registered_days(connection: Connection) -> set[date]:
    """Return the business dates in the register: closed or further, never to be written again."""
    return {row["day"] for row in await connection.fetch("SELECT DISTINCT day FROM day_register")}


def days_ahead(known: Collection[date], today: date) -> int:
    """Return how many days after today have tables, up to the first gap; -1 if today has none."""
    ahead = -1
    while today + timedelta(days=ahead + 1) in known:
        ahead += 1
    return ahead


def _check_not_closed(day: date, closed: Collection[date]) -> None:
    if day in closed:
        raise Refused("day_closed", f"{day} is closed for good; a clock is wrong if it is to be made again")


async def _lock_makers(connection: Connection) -> None:
    """Take the makers' lock, waiting MAKER_TIMEOUT for another maker; from then on wait LOCK_TIMEOUT for any lock."""
    try:
        await connection.execute("SELECT pg_advisory_lock(hashtext('hongbao_day_tables'))")
    except Exception as error:
        if getattr(error, "sqlstate", "") == _LOCKED:
            raise Unavailable("day_tables_locked", "another maker of day tables is at work; try again") from error
        raise
    await connection.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'")


async def _make_day(connection: Connection, day: date, databases: Iterable[int]) -> bool:
    wanted = {database: _leaf_statements(database, day) for database in databases}
    schemas = [names.database(database) for database in wanted]
    existing = {row["leaf"]: row["day_table"] for row in await connection.fetch(_LEAVES, schemas)}
    attached = day in await known_days(connection)
    missing: list[str] = []
    for database, leaves in wanted.items():
        lacking = [sql for leaf, (day_table, sql) in leaves.items() if not _exists(existing, leaf, day_table, day)]
        if lacking:
            missing.append(f"CREATE SCHEMA IF NOT EXISTS {names.database(database)}")
            missing.extend(lacking)
    if attached and not missing:
        return False
    try:
        async with connection.transaction():
            if not attached:
                await connection.execute(";".join(_day_statement(kind, day) for kind in TableKind))
            if missing:
                await connection.execute(";".join(missing))
            if not attached:
                await connection.execute(";".join(_attach_statement(kind, day) for kind in TableKind))
    except Exception as error:
        if getattr(error, "sqlstate", "") == _LOCKED:
            raise Unavailable(
                "day_tables_locked", f"the tables of {day} wait for a lock; the next round tries again"
            ) from error
        raise
    _log.info("day tables made", day=str(day), leaves=len(missing))
    return True


def _exists(existing: dict[str, str | None], leaf: str, day_table: str, day: date) -> bool:
    if leaf not in existing:
        return False
    if existing[leaf] != day_table:
        raise Refused(
            "day_table_occupied",
            f"{leaf} still belongs to {existing[leaf] or 'a detached day'}; rotate that before {day} can be written",
        )
    return True


def _leaf_statements(database: int, day: date) -> dict[str, tuple[str, str]]:
    """Return, for one database: leaf name → (its day table, the statement that creates it)."""
    slots = slots_of(database)
    statements: dict[str, tuple[str, str]] = {}
    for kind in (TableKind.ENVELOPE, TableKind.CLAIM):
        for slot in slots:
            leaf, table = names.leaf(kind, slot, day), names.day_table(kind, day)
            statements[leaf] = (table, f"CREATE TABLE {leaf} PARTITION OF {table} FOR VALUES IN ({slot})")
    leaf, table = names.leaf(TableKind.GUEST, slots[0], day), names.day_table(TableKind.GUEST, day)
    listed = ", ".join(map(str, slots))
    statements[leaf] = (table, f"CREATE TABLE {leaf} PARTITION OF {table} FOR VALUES IN ({listed})")
    return statements


def _day_statement(kind: TableKind, day: date) -> str:
    table = names.day_table(kind, day)
    # The grant counts once the day is detached; until then it is read through its parent table.
    return f"CREATE TABLE {table} (LIKE {kind.value} INCLUDING ALL) PARTITION BY LIST (slot); {_GRANT.format(table)}"


def _attach_statement(kind: TableKind, day: date) -> str:
    low, high = first_id(day), end_id(day)
    return f"ALTER TABLE {kind.value} ATTACH PARTITION {names.day_table(kind, day)} FOR VALUES FROM ({low}) TO ({high})"
