"""Receivers of events that fail, were disabled, or are far behind; events that were given up."""

from collections.abc import Iterable, Iterator

from doctor.finding import Finding, Level
from doctor.limits import EVENTS_BEHIND_S
from doctor.place import Place
from errors import Refused, Unavailable
from events.operators import SetSinks, sinks
from events.register import Sink, State
from events.webhook.addresses import PRIVATE
from runtime.wording import counted


async def events(place: Place) -> list[Finding]:
    """Ask the SETs; if one does not answer, `parts` says so."""
    if place.access is None or place.topology is None:
        return []
    try:
        known = await sinks(place.access)
    except (Unavailable, Refused):  # a SET is away, or this installation is older than events
        return []
    found = list(judge(known))
    names = sorted({one.target.name for of_set in known for one in of_set.sinks})
    if names and not found:
        found.append(Finding("events", Level.OK, ", ".join(names), "all receivers of events accept them"))
    return found


def judge(known: Iterable[SetSinks]) -> Iterator[Finding]:
    """Say which sinks need somebody, and what for."""
    sets = list(known)
    for set_name, of_set in sets:
        for one in of_set:
            yield from _sink(set_name, one)
    names = sorted({one.target.name for of_set in sets for one in of_set.sinks})
    for set_name, of_set in sets:
        for name in names:
            if name not in {one.target.name for one in of_set}:
                what = f"{set_name} lacks the sink {name} of other SETs: it is not told what is committed there."
                yield Finding("events", Level.WRONG, name, what, f"./run events resume {name} adds it from now on.")


def _sink(set_name: str, one: Sink) -> Iterator[Finding]:
    name = one.target.name
    again = f"./run events test {name} tries it; ./run events resume {name} goes on where it was."
    if one.state == State.DISABLED:
        yield Finding("events", Level.WRONG, name, f"{name} of {set_name} is disabled: {one.reason}.", again)
    elif one.state == State.PAUSED:
        yield Finding("events", Level.NOTE, name, f"{name} of {set_name} is paused: {one.reason}.", again)
    elif one.failing_since is not None:
        what = f"{name} of {set_name} has failed since {one.failing_since:%Y-%m-%d %H:%M} UTC: {one.error}."
        do = f"Mend the receiver: events are kept for seven days. ./run events test {name} tries it."
        if PRIVATE in one.error:
            do = f"./run events remove {name}, then add it with --private, if that is meant."
        yield Finding("events", Level.SOON, name, what, do)
    elif one.behind_s > EVENTS_BEHIND_S:
        what = f"{name} of {set_name} is {one.behind_s:,.0f} s behind, and its receiver does not fail."
        yield Finding("events", Level.SOON, name, what, "./run status says whether the part `events` answers.")
    if one.lost_until is not None:
        lost = f"commits before {one.lost_until:%Y-%m-%d %H:%M} UTC are lost"
        what = f"{name} of {set_name} was behind for too long: {lost}."
        yield Finding("events", Level.SOON, name, what, f"Tell its developers; then ./run events resume {name}.")
    if one.refused is not None:
        do = f"Mend the receiver for it; then ./run events redrive {name} --all. After three days it is given up."
        yield Finding("events", Level.SOON, name, f"{name} of {set_name} {one.refused.sentence}.", do)
    if one.dead:
        what = f"{counted(one.dead, 'event')} for {name} of {set_name} given up."
        do = f"./run events dead {name} shows why; mend the receiver, then ./run events redrive {name} --all."
        yield Finding("events", Level.SOON, name, what, do)
