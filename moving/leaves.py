"""The leaves of one database: which there are, made beside the living tables, attached, fenced, dropped.

A leaf that is being filled stands in its place under its name and belongs to no day table: nobody sees it through the
hot tables until it is attached whole. Locks are asked for briefly and again: behind a DDL that waits, everybody waits.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import date
from typing import Any, NamedTuple

from envelope.errors import Refused, Unavailable
from moving import queries
from moving.limits import LOCK_TIMEOUT_MS, PATIENCE_S
from runtime import locks
from schema import names
from schema.names import Kind
from sharding.slots import database_of, slots_of

_PAUSE_MOST_S = 0.5
"""A fence is set within a stall: it must find the moment when nobody holds a lock."""
_LEAVES = queries.read("leaves")


class Leaf(NamedTuple):
    """One table; `slot` is the database's first for guests, who have one table for all ten."""

    kind: Kind
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
        """The slots of its rows, as a partition's bound says it."""
        slots = slots_of(database_of(self.slot)) if self.kind is Kind.GUEST else [self.slot]
        return f"FOR VALUES IN ({', '.join(map(str, slots))})"


class Found(NamedTuple):
    """What stands under a leaf's name. `day` is None for one that belongs to no day table."""

    day: date | None
    hot: bool
    fenced: bool


def leaves_of(xx: int, days: Iterable[date]) -> list[Leaf]:
    """Return the leaves that a database has on these days, whether they stand or not."""
    slots = slots_of(xx)
    return [
        Leaf(kind, slot, day) for day in days for kind in Kind for slot in (slots[:1] if kind is Kind.GUEST else slots)
    ]


async def look(connection: Any, xx: int) -> dict[str, Found]:
    """Return what stands in the schema of a database: the table's name with its schema → what it is."""
    schema = names.database(xx)
    return {
        f"{schema}.{row['leaf']}": Found(
            None if row["day_table"] is None else date.fromisoformat(row["day_table"].rpartition("_")[2]),
            row["root"] is not None,
            row["fenced"],
        )
        for row in await connection.fetch(_LEAVES, schema)
    }


async def hot_days(connection: Any, xx: int) -> list[date]:
    """Return the days of which a database has leaves in the hot tables, in order."""
    found = await look(connection, xx)
    return sorted({one.day for one in found.values() if one.hot and one.day is not None})


async def make(connection: Any, leaves: Sequence[Leaf]) -> None:
    """Make leaves that belong to no day yet; those that stand are left as they are.

    Raises Refused `day_table_occupied` where a name belongs to another date.
    """
    for xx in sorted({database_of(leaf.slot) for leaf in leaves}):
        found = await look(connection, xx)
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


async def attach(connection: Any, leaves: Sequence[Leaf]) -> None:
    """Make leaves partitions of their days, all of a day in one step; those that are it are left as they are."""
    for day, of_day in _by_day(leaves).items():
        found = await look(connection, database_of(of_day[0].slot))
        lacking = [leaf for leaf in of_day if found[leaf.name].day is None]
        if lacking:
            await briefly(
                connection,
                [f"ALTER TABLE {leaf.day_table} ATTACH PARTITION {leaf.name} {leaf.bound}" for leaf in lacking],
                f"the tables of {day}",
            )


async def fence(connection: Any, leaves: Sequence[Leaf]) -> None:
    """Refuse every write to these leaves from now on (SQLSTATE HB002); waits for those that are running.

    All in one transaction: when it returns nothing of them will change any more.
    """
    found = await look(connection, database_of(leaves[0].slot)) if leaves else {}
    open_ = [leaf for leaf in leaves if leaf.name in found and not found[leaf.name].fenced]
    if open_:
        statements = [f"LOCK TABLE {', '.join(leaf.name for leaf in open_)} IN SHARE ROW EXCLUSIVE MODE"]
        statements += [
            f"CREATE TRIGGER moved_away BEFORE INSERT OR UPDATE OR DELETE ON {leaf.name} "
            f"FOR EACH ROW EXECUTE FUNCTION moved_away('{database_of(leaf.slot):02d}')"
            for leaf in open_
        ]
        await briefly(connection, statements, "the fence")


async def unfence(connection: Any, leaves: Sequence[Leaf]) -> None:
    """Take the fence away."""
    found = await look(connection, database_of(leaves[0].slot)) if leaves else {}
    fenced = [leaf for leaf in leaves if leaf.name in found and found[leaf.name].fenced]
    if fenced:
        await briefly(connection, [f"DROP TRIGGER IF EXISTS moved_away ON {leaf.name}" for leaf in fenced], "the fence")


async def drop(connection: Any, leaves: Sequence[Leaf]) -> None:
    """Drop these leaves, a day at a time; those that are gone, or whose names hold another date, are no error."""
    for day, of_day in _by_day(leaves).items():
        found = await look(connection, database_of(of_day[0].slot))
        standing = [leaf for leaf in of_day if leaf.name in found and found[leaf.name].day in (None, day)]
        if standing:
            await briefly(
                connection, [f"DROP TABLE IF EXISTS {leaf.name}" for leaf in standing], f"the tables of {day}"
            )


async def briefly(connection: Any, statements: Sequence[str], what: str) -> None:
    """Run statements in one transaction that waits shortly for each lock, again and again with pauses.

    Raises Unavailable `tables_locked` when traffic does not give way; nothing was done then.
    """

    async def work() -> None:
        await connection.execute(";".join(statements))

    await patiently(connection, work, what)


async def patiently(connection: Any, work: Callable[[], Awaitable[None]], what: str) -> None:
    """Run `work` in a transaction that waits shortly for each lock; see `briefly`."""

    async def whole() -> None:
        async with connection.transaction():
            await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_MS}ms'")
            await work()

    try:
        await locks.insist(whole, patience_s=PATIENCE_S, pause_most_s=_PAUSE_MOST_S)
    except Exception as error:
        if not locks.is_locked(error):
            raise
        text = f"{what}: others hold locks and do not let go; run it again in a while"
        raise Unavailable("tables_locked", text) from error


def _by_day(leaves: Sequence[Leaf]) -> dict[date, list[Leaf]]:
    days: dict[date, list[Leaf]] = {}
    for leaf in leaves:
        days.setdefault(leaf.day, []).append(leaf)
    return days
