"""What the catalog and the register say of the days: where their tables stand, how large they are, how far gone."""

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from archive.states import State
from rotation import queries, register
from schema.names import Kind

_LEAVES = queries.read("leaves")
_DAY_TABLES = queries.read("day_tables")


@dataclass
class DayFacts:
    """One day. `states` are those of the databases that are this SET's on that day, or have an entry in its register.

    `strangers` have tables here and neither: another SET's, made before a move. `rows` is what Postgres estimates.
    """

    day: date
    states: dict[int, State] = field(default_factory=dict)
    attached: set[Kind] = field(default_factory=set)
    pending: set[Kind] = field(default_factory=set)
    fenced: bool = False
    hot_leaves: dict[int, int] = field(default_factory=dict)
    strangers: list[int] = field(default_factory=list)
    bytes: int = 0
    rows: int = 0
    tables: set[Kind] = field(default_factory=set)

    @property
    def state(self) -> State:
        """The state of the database that has come least far."""
        return min(self.states.values(), key=lambda one: one.rank, default=State.HOT)

    @property
    def leafless(self) -> bool:
        """Whether its tables stand and no database has a part in them: the SET had none on that day."""
        return bool(self.tables) and not self.states and not self.hot_leaves


Databases = Callable[[date], Collection[int]]
"""Says which databases' envelopes of a day are this SET's."""


async def of_day(connection: Any, day: date, databases: Databases) -> DayFacts:
    """Return the facts of one day; without states where nothing is known of it."""
    found = await _facts(connection, databases, day)
    return found[0] if found else DayFacts(day)


async def all_days(connection: Any, databases: Databases) -> list[DayFacts]:
    """Return the facts of all days that have tables or an entry in the register, oldest first."""
    return await _facts(connection, databases, None)


async def _facts(connection: Any, databases: Databases, only: date | None) -> list[DayFacts]:
    days: dict[date, DayFacts] = {}
    fences: dict[date, list[bool]] = defaultdict(list)
    for row in await connection.fetch(_DAY_TABLES, only):
        facts = days.setdefault(row["day"], DayFacts(row["day"]))
        kind = Kind(row["kind"])
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
        facts.strangers = sorted(set(facts.hot_leaves) - set(facts.states))
    return [days[day] for day in sorted(days)]


def _take_leaves(days: dict[date, DayFacts], rows: Collection[Any]) -> None:
    for row in rows:
        facts = days[row["day"]]
        facts.bytes += row["bytes"]
        if row["kind"] == Kind.CLAIM:
            facts.rows += row["rows_about"]
        prefix, _, xx = row["stands_in"].partition("_")
        if prefix == "db":
            facts.hot_leaves[int(xx)] = facts.hot_leaves.get(int(xx), 0) + row["leaves"]
