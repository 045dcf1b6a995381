"""What catalog and register say of each day: where its tables stand, how large they are, its databases' states."""

from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from archive.states import State
from rotation import register
from runtime import sql
from runtime.postgres import Connection
from schema.names import TableKind

_LEAVES = sql.read("rotation", "leaves")
_DAY_TABLES = sql.read("rotation", "day_tables")


@dataclass
class DayFacts:
    """One day. `states` are those of the databases that are this SET's on that day, or have an entry in its register.

    `tables` are those of its three day tables that exist, `attached` those that belong to their hot table, `pending`
    those whose detach was interrupted; `fenced` says that all that exist have their fence. `hot_leaves` counts the
    leaves in each database's hot schema. `foreign_databases` have such leaves and no state: they are another SET's, and
    the leaves were made before they moved. `bytes` includes indexes; `rows` is Postgres' estimate of the claims.
    """

    day: date
    states: dict[int, State] = field(default_factory=dict)
    attached: set[TableKind] = field(default_factory=set)
    pending: set[TableKind] = field(default_factory=set)
    fenced: bool = False
    hot_leaves: dict[int, int] = field(default_factory=dict)
    foreign_databases: list[int] = field(default_factory=list)
    bytes: int = 0
    rows: int = 0
    tables: set[TableKind] = field(default_factory=set)

    @property
    def state(self) -> State:
        """The state of the database that is furthest behind."""
        return min(self.states.values(), key=lambda one: one.rank, default=State.HOT)

    @property
    def empty(self) -> bool:
        """Whether its tables stand and have no leaves of any database: the SET had no database on that day."""
        return bool(self.tables) and not self.states and not self.hot_leaves


Databases = Callable[[date], Collection[int]]
"""Returns the databases whose envelopes of a day are this SET's."""


async def of_day(connection: Connection, day: date, databases: Databases) -> DayFacts:
    """Return the facts of one day; without states if neither catalog nor register knows it."""
    found = await _facts(connection, databases, day)
    return found[0] if found else DayFacts(day)


async def all_days(connection: Connection, databases: Databases) -> list[DayFacts]:
    """Return the facts of all days that have tables or an entry in the register, oldest first."""
    return await _facts(connection, databases, None)


async def _facts(connection: Connection, databases: Databases, only: date | None) -> list[DayFacts]:
    """In one snapshot: between two of them tables come and go, and an entry of the register comes with that."""
    async with AsyncExitStack() as stack:
        if not connection.is_in_transaction():
            await stack.enter_async_context(connection.transaction(isolation="repeatable_read", readonly=True))
        return await _facts_in_snapshot(connection, databases, only)


async def _facts_in_snapshot(connection: Connection, databases: Databases, only: date | None) -> list[DayFacts]:
    days: dict[date, DayFacts] = {}
    fences: dict[date, list[bool]] = defaultdict(list)
    for row in await connection.fetch(_DAY_TABLES, only):
        facts = days.setdefault(row["day"], DayFacts(row["day"]))
        kind = TableKind(row["kind"])
        facts.tables.add(kind)
        if row["attached"]:
            facts.attached.add(kind)
        if row["pending"]:
            facts.pending.add(kind)
        fences[row["day"]].append(row["fenced"])
    for day, fenced in fences.items():
        days[day].fenced = all(fenced)
    _take_leaves(days, await connection.fetch(_LEAVES, only))
    for facts in days.values():
        ours = set(databases(facts.day))
        facts.states = {xx: State.HOT for xx in facts.hot_leaves if xx in ours}
    for entry in await register.entries(connection, only):
        days.setdefault(entry.day, DayFacts(entry.day)).states[entry.xx] = entry.state
    for facts in days.values():
        facts.foreign_databases = sorted(set(facts.hot_leaves) - set(facts.states))
    return [days[day] for day in sorted(days)]


def _take_leaves(days: dict[date, DayFacts], rows: Collection[Any]) -> None:
    for row in rows:
        facts = days[row["day"]]
        facts.bytes += row["bytes"]
        if row["kind"] == TableKind.CLAIM:
            facts.rows += row["rows_about"]
        prefix, _, xx = row["stands_in"].partition("_")
        if prefix == "db":
            facts.hot_leaves[int(xx)] = facts.hot_leaves.get(int(xx), 0) + row["leaves"]
