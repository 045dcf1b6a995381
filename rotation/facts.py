"""What the catalog and the register say of the days: where their tables stand, how large they are, how far gone."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from rotation import queries, register
from rotation.register import Entry
from rotation.states import State
from schema.names import Kind

_LEAVES = queries.read("leaves")
_DAY_TABLES = queries.read("day_tables")


@dataclass
class DayFacts:
    """One day. `states` are those of the databases that have tables or an entry; `rows` is what Postgres estimates."""

    day: date
    states: dict[int, State] = field(default_factory=dict)
    attached: set[Kind] = field(default_factory=set)
    pending: set[Kind] = field(default_factory=set)
    fenced: bool = False
    hot_leaves: dict[int, int] = field(default_factory=dict)
    bytes: int = 0
    rows: int = 0

    @property
    def state(self) -> State:
        """The state of the database that has come least far."""
        return min(self.states.values(), key=lambda one: one.rank, default=State.HOT)

    def strangers(self, entries: Iterable[Entry]) -> list[int]:
        """Return the databases that have leaves here and no entry, of a day that is registered: another SET's."""
        known = {one.xx for one in entries}
        return sorted(set(self.hot_leaves) - known) if known else []


async def of_day(connection: Any, day: date) -> DayFacts:
    """Return the facts of one day; without states where nothing is known of it."""
    found = await _facts(connection, day)
    return found[0] if found else DayFacts(day)


async def all_days(connection: Any) -> list[DayFacts]:
    """Return the facts of all days that have tables or an entry in the register, oldest first."""
    return await _facts(connection, None)


async def _facts(connection: Any, only: date | None) -> list[DayFacts]:
    days: dict[date, DayFacts] = {}
    fences: dict[date, list[bool]] = defaultdict(list)
    for row in await connection.fetch(_DAY_TABLES, only):
        facts = days.setdefault(row["day"], DayFacts(row["day"]))
        kind = Kind(row["kind"])
        if row["attached"]:
            facts.attached.add(kind)
        if row["pending"]:
            facts.pending.add(kind)
        fences[row["day"]].append(row["fenced"])
    for day, fenced in fences.items():
        days[day].fenced = all(fenced)
    _take_leaves(days, await connection.fetch(_LEAVES, only))
    entries = await register.entries(connection, only)
    for entry in entries:
        days.setdefault(entry.day, DayFacts(entry.day)).states[entry.xx] = entry.state
    registered = {entry.day for entry in entries}
    for facts in days.values():
        if facts.day not in registered:
            facts.states = dict.fromkeys(facts.hot_leaves, State.HOT)
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
