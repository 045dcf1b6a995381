"""The leaves of one database: listed, made, attached to their days, fenced, dropped.

A leaf that is being filled has its final name and belongs to no day table, so no statement sees it through the hot
tables until all leaves of its day are attached in one step. DDL waits briefly for its locks and is retried
(`days.retry`).
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import date
from typing import NamedTuple

from days.limits import LOCK_TIMEOUT_MS
from errors import Refused
from moving import lock
from moving.limits import LOCK_RETRY
from runtime import sql
from runtime.postgres import Connection
from schema import names
from schema.names import TableKind
from sharding.slots import database_of, slots_of

_LEAVES = sql.read("moving", "leaves")


class Leaf(NamedTuple):
    """One table; `slot` is the database's first slot for guests, who have one table for all ten slots."""

    kind: TableKind
    slot: int
    day: date

    @property
    def name(self) -> str:
        """The name with its schema: "db_07.claim_3_21"."""
        return names.leaf(self.kind, self.slot, self.day)

    @property
    def day_table(self) -> str:
        """The partition of the whole day to which it belongs."""
        return names.day_table(self.kind, self.day)

    @property
    def bound(self) -> str:
        """The slots of its rows, as the bound that ATTACH PARTITION takes."""
        slots = slots_of(database_of(self.slot)) if self.kind is TableKind.GUEST else [self.slot]
        return f"FOR VALUES IN ({', '.join(map(str, slots))})"


class LeafState(NamedTuple):
    """A leaf in the catalog: its day table's `day`, or None if it has none; `hot` if that day table is attached."""

    day: date | None
    hot: bool
    fenced: bool


def leaves_of(xx: int, days: Iterable[date]) -> list[Leaf]:
    """Return the leaves that a database has on these days by the layout, whether they exist or not."""
    slots = slots_of(xx)
    return [
        Leaf(kind, slot, day)
        for day in days
        for kind in TableKind
        for slot in (slots[:1] if kind is TableKind.GUEST else slots)
    ]


async def in_catalog(connection: Connection, xx: int) -> dict[str, LeafState]:
    """Return what exists in the schema of a database, by the table's name with its schema."""
    schema = names.database(xx)
    return {
        f"{schema}.{row['leaf']}": LeafState(
            None if row["day_table"] is None else date.fromisoformat(row["day_table"].rpartition("_")[2]),
            row["root"] is not None,
            row["fenced"],
        )
        for row in await connection.fetch(_LEAVES, schema)
    }


async def hot_days(connection: Connection, xx: int) -> list[date]:
    """Return the days of which a database has leaves in the hot tables, oldest first, days to come included."""
    found = await in_catalog(connection, xx)
    return sorted({one.day for one in found.values() if one.hot and one.day is not None})


async def make(connection: Connection, leaves: Sequence[Leaf]) -> None:
    """Make leaves that belong to no day yet; those that exist are left as they are.

    Raises Refused `day_table_occupied` if one of the names belongs to another date.
    """
    for xx in sorted({database_of(leaf.slot) for leaf in leaves}):
        found = await in_catalog(connection, xx)
        mine = [leaf for leaf in leaves if database_of(leaf.slot) == xx]
        for leaf in mine:
            stands = found.get(leaf.name)
            if stands is not None and stands.day not in (None, leaf.day):
                raise Refused(
                    "day_table_occupied",
                    f"{leaf.name} holds {stands.day} there; rotate that before {leaf.day} can come",
                )
        lacking = [leaf for leaf in mine if leaf.name not in found]
        made = [f"CREATE TABLE {leaf.name} (LIKE {leaf.kind.value} INCLUDING ALL)" for leaf in lacking]
        await connection.execute(";".join([f"CREATE SCHEMA IF NOT EXISTS {names.database(xx)}", *made]))


async def attach(connection: Connection, leaves: Sequence[Leaf]) -> None:
    """Attach leaves to their day tables, all of a day in one transaction. Idempotent."""
    for of_day in _by_day(leaves).values():
        found = await in_catalog(connection, database_of(of_day[0].slot))
        lacking = [leaf for leaf in of_day if found[leaf.name].day is None]
        if lacking:
            statements = [f"ALTER TABLE {leaf.day_table} ATTACH PARTITION {leaf.name} {leaf.bound}" for leaf in lacking]
            tables = sorted({f"public.{leaf.day_table}" for leaf in lacking})
            await run_ddl(connection, statements, tables)


async def fence(connection: Connection, leaves: Sequence[Leaf]) -> None:
    """Refuse every write to these leaves, all of one database, from now on (SQLSTATE HB002); waits for running writers.

    All in one transaction: on return no row of them changes any more. Durable, idempotent. Raises as `with_locks`.
    """
    found = await in_catalog(connection, database_of(leaves[0].slot)) if leaves else {}
    open_ = [leaf for leaf in leaves if leaf.name in found and not found[leaf.name].fenced]
    if open_:
        statements = [f"LOCK TABLE {', '.join(leaf.name for leaf in open_)} IN SHARE ROW EXCLUSIVE MODE"]
        statements += [
            f"CREATE TRIGGER moved_away BEFORE INSERT OR UPDATE OR DELETE ON {leaf.name} "
            f"FOR EACH ROW EXECUTE FUNCTION moved_away('{database_of(leaf.slot):02d}')"
            for leaf in open_
        ]
        await run_ddl(connection, statements, [leaf.name for leaf in open_])


async def unfence(
    connection: Connection, leaves: Sequence[Leaf], allowed: Callable[[Connection], Awaitable[None]] | None = None
) -> None:
    """Lift the fence of these leaves, all of one database. Durable, idempotent. Raises as `with_locks`.

    `allowed` is awaited in the same transaction and raises if this process may not; without it, the connection has to
    hold the move lock.
    """
    found = await in_catalog(connection, database_of(leaves[0].slot)) if leaves else {}
    fenced = [leaf for leaf in leaves if leaf.name in found and found[leaf.name].fenced]

    async def work() -> None:
        await (allowed(connection) if allowed else lock.check(connection, database_of(leaves[0].slot)))
        await connection.execute(";".join(f"DROP TRIGGER IF EXISTS moved_away ON {leaf.name}" for leaf in fenced))

    if fenced:
        await with_locks(connection, work, [leaf.name for leaf in fenced])


async def drop(connection: Connection, leaves: Sequence[Leaf]) -> None:
    """Drop these leaves with their rows, a day at a time; skips those that are gone or belong to another date.

    The connection holds the move lock (`lock.check`), and the caller has made sure that the other SET has these days
    (`MoveContext.must_hold`).
    """
    for day, of_day in _by_day(leaves).items():
        xx = database_of(of_day[0].slot)
        found = await in_catalog(connection, xx)
        standing = [leaf.name for leaf in of_day if leaf.name in found and found[leaf.name].day in (None, day)]
        if standing:
            await drop_tables(connection, xx, standing)


async def drop_tables(
    connection: Connection, xx: int, tables: Sequence[str], before: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Drop tables of a database, if the connection holds its move lock, in one transaction.

    `before` is awaited under the tables' locks; what it raises leaves all of them. Raises as `with_locks`, and
    Unavailable `move_lock_lost`.
    """

    async def work() -> None:
        await lock.check(connection, xx)
        if before is not None:
            await connection.execute(f"LOCK TABLE {', '.join(tables)}")
            await before()
        await connection.execute(";".join(f"DROP TABLE IF EXISTS {name}" for name in tables))

    await with_locks(connection, work, tables)


async def run_ddl(connection: Connection, statements: Sequence[str], tables: Sequence[str]) -> None:
    """Run statements in one transaction, as `with_locks` does."""

    async def work() -> None:
        await connection.execute(";".join(statements))

    await with_locks(connection, work, tables)


async def with_locks(connection: Connection, work: Callable[[], Awaitable[None]], tables: Sequence[str]) -> None:
    """Run `work` in a transaction that waits LOCK_TIMEOUT_MS for each lock, repeated until it gets them.

    Raises Unavailable `tables_locked`, naming the processes that hold `tables`; nothing was done then.
    """

    async def transaction() -> None:
        async with connection.transaction():
            await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_MS}ms'")
            await work()

    await LOCK_RETRY.run(connection, transaction, tables=tables)


def _by_day(leaves: Sequence[Leaf]) -> dict[date, list[Leaf]]:
    days: dict[date, list[Leaf]] = {}
    for leaf in leaves:
        days.setdefault(leaf.day, []).append(leaf)
    return days
