"""What `hongbao events` says: a sink as all SETs have it, what each needs, sentences and tables."""

import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from rich.markup import escape
from rich.table import Table

from events.operators import SetSinks
from events.register import Refusal, Sink, State
from events.retries import Redriven
from events.webhook.addresses import PRIVATE
from runtime.wording import counted

TEST_TYPE = "sink.test"
"""The type of the event that `events test` sends; it has no envelope."""


def sink_json(name: str, found: list[SetSinks]) -> dict[str, Any]:
    """Return one sink as all SETs have it: the worst state, the longest lag, the sums."""
    of_sets = {of_set.set_name: one for of_set in found for one in of_set.sinks if one.target.name == name}
    target = next(iter(of_sets.values())).target
    missing = [of_set.set_name for of_set in found if of_set.set_name not in of_sets]
    return {
        "name": name, "kind": target.kind, "url": _without_password(target.address), "types": list(target.types),
        "batch": target.batch, "state": _worst(of_sets.values()),
        "behind_s": round(max(one.behind_s for one in of_sets.values()), 1),
        "delivered": sum(one.delivered for one in of_sets.values()),
        "retried": sum(one.retried for one in of_sets.values()), "dead": sum(one.dead for one in of_sets.values()),
        "refused": [_refused_json(set_name, one.refused) for set_name, one in of_sets.items() if one.refused],
        "needs": list(_needs(name, of_sets, missing)),
    }  # fmt: skip


def _refused_json(set_name: str, refused: Refusal) -> dict[str, Any]:
    """Return how many events a receiver refuses while it accepts others, and the oldest of them."""
    return {
        "set": set_name, "count": refused.number, "event_id": refused.event_id, "since": refused.since.isoformat(),
        "reason": refused.reason, "next_at": refused.next_at.isoformat(),
    }  # fmt: skip


def _worst(sinks: Iterable[Sink]) -> str:
    states = {one.state for one in sinks}
    return next(one.value for one in (State.DISABLED, State.PAUSED, State.ACTIVE) if one in states)


def _needs(name: str, of_sets: dict[str, Sink], missing: list[str]) -> Iterator[str]:
    """Yield what is not as it should be, a sentence each."""
    for set_name, one in of_sets.items():
        if one.state == State.DISABLED:
            yield f"{set_name}: disabled {one.since:%Y-%m-%d %H:%M}: {one.reason}; then: ./run events resume {name}"
        elif one.failing_since is not None:
            yield f"{set_name}: fails since {one.failing_since:%Y-%m-%d %H:%M} UTC: {one.error}"
        if one.refused is not None:
            yield f"{set_name}: {one.refused.sentence}; once its receiver is mended: ./run events redrive {name} --all"
        if one.dead:
            yield f"{set_name}: {counted(one.dead, 'dead letter')}: ./run events dead {name}"
        if one.lost_until is not None:
            lost = f"what was committed before {one.lost_until:%Y-%m-%d %H:%M} UTC is lost"
            yield f"{set_name}: behind for too long; {lost}; when its developers know: ./run events resume {name}"
    if len({one.state for one in of_sets.values()}) > 1:
        states = ", ".join(f"{set_name} {one.state}" for set_name, one in of_sets.items())
        yield f"the SETs differ: {states}; ./run events pause {name}, or resume {name}"
    if len({one.target.secrets[:1] for one in of_sets.values()}) > 1:
        yield f"the SETs differ: they sign with different secrets; ./run events secret {name}"
    for set_name in missing:
        yield f"{set_name}: lacks it; ./run events resume {name} adds it"


def _without_password(address: str) -> str:
    parts = urlsplit(address)
    if "@" not in parts.netloc:
        return address
    return parts._replace(netloc=f"…@{parts.netloc.rpartition('@')[2]}").geturl()


def sinks_table(sinks: list[dict[str, Any]]) -> Table:
    """Return all sinks, a row each."""
    table = Table("sink", "state", "behind", "delivered", "retried", "dead", "receiver", "what it needs")
    for one in sinks:
        behind = "-" if not one["behind_s"] else f"{one['behind_s']:,.0f} s"
        table.add_row(
            one["name"], one["state"], behind, f"{one['delivered']:,}", str(one["retried"]), str(one["dead"]),
            escape(one["url"]), escape("\n".join(one["needs"])),
        )  # fmt: skip
    return table


def dead_table(letters: list[dict[str, Any]]) -> Table:
    """Return dead letters, a row each."""
    table = Table("sink", "event", "tries", "since", "reason")
    for one in letters:
        table.add_row(one["sink"], one["event_id"], str(one["tries"]), one["since"][:16], escape(one["reason"]))
    return table


def to_send_again(name: str, sinks: list[Sink], again: Redriven) -> str:
    """Return how many events are to be sent now, dead letters and such that were retried; and what they wait for."""
    number, dead = len(again.dead) + len(again.retried), counted(len(again.dead), "dead letter")
    what = f"{counted(number, 'event')} to send again: {dead}, {len(again.retried)} retried"
    stopped = number and any(one.state != State.ACTIVE for one in sinks)
    return f"{what}; {name} is {_worst(sinks)}: ./run events resume {name}" if stopped else what


def not_sent(name: str, event_id: str, again: Redriven) -> str:
    """Say why an event that was named is not sent again."""
    if event_id in again.waiting:
        return f"{event_id} is on its way, or waits behind an earlier event of its envelope: send that one again"
    what = f"there is no event {event_id[:64]!r} among the dead letters of {name} and what it refuses"
    return f"{what}; ./run events dead {name} and ./run events list name them"


def no_letter(name: str, event_id: str) -> str:
    """Say that no dead letter has this name."""
    return f"there is no dead letter {event_id[:64]!r} of {name}; ./run events dead {name} lists them"


def advice(name: str, reason: str) -> str:
    """Return what to look at first, by what the receiver answered; "" if that says it."""
    if PRIVATE in reason:
        return f": ./run events remove {name}, then add it with --private, if that is meant"
    if "was not reached" in reason:
        return "; does it run, and listen at this address?"
    refused = re.search(r"answered (\d{3})", reason)
    match refused and refused[1]:
        case "401" | "403":
            return f"; does it verify with the secret of {name}? ./run events secret {name} makes a new one"
        case "404" | "405":
            return "; is the path of its address right?"
        case str(status) if status >= "500":
            return f"; it got an event of the type {TEST_TYPE}, which has no envelope: does it pass over unknown types?"
        case _:
            return ""


def after_test(name: str, sinks: list[Sink]) -> str:
    """Say what follows from an accepted test."""
    if any(one.state != State.ACTIVE for one in sinks):
        return f"; it is {_worst(sinks)}: ./run events resume {name} goes on where it was"
    if any(one.failing_since is not None or one.retried for one in sinks):
        return "; what waited for its next try is sent now"
    return ""
