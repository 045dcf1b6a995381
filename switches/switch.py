"""One switch: what it closes, where, for how long, by whom and why."""

import difflib
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from errors import Refused
from sharding.ids import day_of, slot_of
from sharding.slots import database_name, database_of
from sharding.topology import Topology

LONGEST: Final = timedelta(days=7)
"""A switch that is needed for longer is a change of the system."""
TEXT_CHARS: Final = 200
"""Of a reason or an owner."""


class Closes(StrEnum):
    """What can be closed. There is nothing here for refunds, cancels and the audit: they must go on."""

    CREATES = "creates"
    GRABS = "grabs"
    OPENS = "opens"
    """Of one SET or database only."""
    VIEWS = "views"
    """Envelopes are shown from memory only; those that would be read from Postgres are not shown."""
    LISTS = "lists"
    """A user's statement and totals, and the lists of envelopes sent, received and waiting."""
    PAYOUTS = "payouts"
    """Of shares that were won; what is left goes back to senders all the same. Opens go on."""


EVERYWHERE: Final = ""
_BY_DATABASE: Final = frozenset({Closes.CREATES, Closes.GRABS, Closes.OPENS, Closes.VIEWS})
"""These can be closed for one database; payouts for one SET."""


class Switch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`where`: a SET, a database (`db_07`), or everywhere."""

    closes: Closes
    where: str = EVERYWHERE
    owner: str
    reason: str
    since: datetime
    until: datetime

    @property
    def name(self) -> str:
        """As an operator writes it: `opens:set-1`."""
        return f"{self.closes}:{self.where}" if self.where else self.closes.value

    def covers(self, topology: Topology, envelope_id: int | None) -> bool:
        """Say whether it closes its kind of request for an envelope; for None, for any."""
        if self.where == EVERYWHERE:
            return True
        if envelope_id is None:
            return False
        if self.where == database_name(database_of(slot_of(envelope_id))):
            return True
        return topology.set_for(envelope_id).name == self.where

    def databases(self, topology: Topology, today: int) -> list[int]:
        """Return the databases that it is about, for envelopes of the day of an ID."""
        numbers = range(topology.layout.databases)
        if self.where == EVERYWHERE:
            return list(numbers)
        day = day_of(today)
        return [
            xx
            for xx in numbers
            if self.where in (database_name(xx), topology.set_for_database(xx, day).name)
        ]  # fmt: skip


def read_name(text: str) -> tuple[Closes, str]:
    """Split `opens:set-1` into what it closes and where; raises Refused `unknown_switch`."""
    kind, colon, where = text.partition(":")
    if colon and not where.strip():
        raise Refused("unknown_switch", f"{text!r} names no place after the colon; everywhere is {kind!r} alone")
    try:
        return Closes(kind), where
    except ValueError:
        near = difflib.get_close_matches(kind, list(Closes), n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise Refused("unknown_switch", f"there is no switch {kind!r}, there are {', '.join(Closes)}{meant}") from None


def check(one: Switch, topology: Topology, now: datetime) -> None:
    """Raise Refused if a switch cannot be set now: `switch_invalid`, `unknown_set`."""
    sets = [spec.name for spec in topology.sets]
    names = [*sets, *(map(database_name, range(topology.layout.databases)) if one.closes in _BY_DATABASE else ())]
    if one.closes is Closes.OPENS and one.where == EVERYWHERE:
        raise _invalid(f"opens are closed for one SET or database: opens:{sets[0]} or opens:{database_name(0)}")
    if one.closes is Closes.LISTS and one.where != EVERYWHERE:
        raise _invalid("lists are read from the wallet, which is one for all: write lists alone")
    if one.where != EVERYWHERE and one.where not in names:
        what = "SET or database" if one.closes in _BY_DATABASE else "SET"
        raise Refused("unknown_set", f"there is no {what} {one.where!r} in the topology; SETs: {', '.join(sets)}")
    for field, text in (("owner", one.owner), ("reason", one.reason)):
        if not 1 <= len(text.strip()) <= TEXT_CHARS or not text.isprintable():
            raise _invalid(f"the {field} is 1 to {TEXT_CHARS} characters on one line")
    if one.until <= now:
        raise _invalid(f"it would have ended at {one.until.isoformat(timespec='seconds')}, which is past")
    if one.until - now > LONGEST:
        raise _invalid(f"it ends after {LONGEST.days} days at most; switch it on again then")


def _invalid(sentence: str) -> Refused:
    return Refused("switch_invalid", sentence)
