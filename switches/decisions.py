"""Lists of switches from several places become one: for each name the latest decision counts.

A decision is an entry of its name: closed from `since` until `until`, or opened again, which is an entry that ends
when it begins, or before. So a list that is older, or was made without sight of another one, undoes nothing: merging
gives the same result in any order and however often.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from switches.switch import LONGEST, Switch

_MOMENT = timedelta(seconds=1)


def merge(*lists: Iterable[Switch]) -> list[Switch]:
    """Return the latest decision about each name; of two at the same moment opening counts, then the longer one."""
    latest: dict[str, Switch] = {}
    for one in (one for some in lists for one in some):
        known = latest.get(one.name)
        if known is None or _order(one) > _order(known):
            latest[one.name] = one
    return sorted(latest.values(), key=lambda one: (one.since, one.name))


def on(decisions: Iterable[Switch], now: datetime) -> list[Switch]:
    """Return those that close something now."""
    return [one for one in decisions if closes(one) and one.until > now]


def closes(one: Switch) -> bool:
    """Say whether a decision closes something; if not, it opens its name."""
    return one.until > one.since


def decide(before: Sequence[Switch], how: Callable[[list[Switch]], Sequence[Switch]], now: datetime) -> list[Switch]:
    """Return the decisions after `how(those that are on)`: what it adds is closed, what it leaves out is opened.

    A decision is kept for LONGEST: until then a switch that it has ended or replaced could still be on elsewhere.
    """
    known = {one.name: one for one in before}
    was_on = {one.name: one for one in on(before, now)}
    wanted = {one.name: one for one in how(list(was_on.values()))}
    # Past on every host, also where `since` was told by a clock that is ahead.
    opened = [
        msgspec.structs.replace(one, until=min(one.since, now)) for name, one in was_on.items() if name not in wanted
    ]
    closed = [one if one == known.get(name) else _after(one, known.get(name)) for name, one in wanted.items()]
    return [one for one in merge(before, opened, closed) if one.until > now or one.since + LONGEST > now]


def _after(one: Switch, known: Switch | None) -> Switch:
    """Return a new decision, later than the one known: hosts' clocks differ, and two may come in one second."""
    if known is None or one.since > known.since:
        return one
    since = known.since + _MOMENT
    # It closes, however far behind the clock of the one before it is.
    return msgspec.structs.replace(one, since=since, until=max(one.until, since + _MOMENT))


def _order(one: Switch) -> tuple[datetime, bool, datetime, str, str]:
    return one.since, not closes(one), one.until, one.owner, one.reason
