"""`hongbao events`: who is told of what was committed, how each receiver does, and what was given up."""

import asyncio
import contextlib
import json
import re
import secrets
import sys
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click
from rich.markup import escape
from rich.table import Table

from errors import Refused, Unavailable
from events import operators
from events.event import Event
from events.limits import MAX_BATCH
from events.operators import SetSinks
from events.outcome import Failed, one_line
from events.register import Kind, Refusal, Sink, State, Target
from events.retries import Redriven
from events.service import sender_of
from events.tail import follow
from installation.finding import find_current
from runtime.reporting import Show, data_option, json_option, print_output, print_report, working
from runtime.tables import print_table
from runtime.wording import counted
from wire.cloud_events import SOURCE, TYPES

DEAD_SHOWN = 1_000
TEST_TYPE = "sink.test"
_DURATION = re.compile(r"(\d{1,4})([mhd])")

T = TypeVar("T")


@click.group("events", invoke_without_command=True)
@data_option
@json_option
@click.pass_context
def command(context: click.Context, *, data: Path | None, as_json: bool) -> None:
    """Tell other programs what was committed: webhooks (signed), NATS JetStream; follow it here.

    Without a subcommand, the sinks are listed. Events: envelope.created, share.opened, envelope.sold_out,
    envelope.closed, refund.paid, payout.stuck.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_, data=data, as_json=as_json)


@command.command("list")
@data_option
@json_option
def list_(*, data: Path | None, as_json: bool) -> None:
    """List sinks: how far each is behind, and what its receiver last answered. Exit status 1 if one needs you.

    behind: how old the oldest commit is that it has not passed. delivered: events that it has accepted, or that are
    retried apart. retried: events that it refuses while it accepts others, and those of their envelopes that wait
    behind them, in order. dead: events that were given up after three days; `events dead` lists them.
    """
    found = _ask(operators.sinks(find_current(data)))
    names = sorted({one.target.name for of_set in found for one in of_set.sinks})
    sinks = [_sink_json(name, found) for name in names]
    show: Show | str = (
        (lambda console: print_table(console, _sinks_table(sinks)))
        if sinks
        else "nobody is told of events; ./run events add NAME URL adds a receiver"
    )
    print_report({"sinks": sinks}, as_json=as_json, show=show)
    sys.exit(1 if any(one["needs"] for one in sinks) else 0)


@command.command("add")
@click.argument("name")
@click.argument("url")
@click.option("--type", "types", multiple=True, metavar="EVENT", help="Only these events; repeat it for several.")
@click.option(
    "--batch", default=1, show_default=True, help=f"Events in one call, as a JSON array; {MAX_BATCH} at most."
)
@click.option("--private", is_flag=True, help="Allow hosts of a private network, and http://.")
@data_option
@json_option
def add(
    *, name: str, url: str, types: tuple[str, ...], batch: int, private: bool, data: Path | None, as_json: bool
) -> None:
    """Add a receiver NAME at URL: https://… is a webhook, nats://HOST:4222/STREAM a stream of NATS JetStream.

    It is told what is committed from now on. Prints the secret that a webhook verifies calls with.
    """
    kind = Kind.NATS if url.startswith(("nats:", "tls:")) else Kind.WEBHOOK
    target = _ask(operators.add(find_current(data), Target(name, kind, url, types, batch, private)))
    secret = target.secrets[0] if target.secrets else None
    told = [f"{name} is told {'of ' + ', '.join(types) if types else 'of every event'} from now on"]
    if secret:
        told.append(f"its calls are signed with {secret}")
        told.append(f"keep this secret, it is not shown again; ./run events secret {name} makes a new one")
        told.append(f"next: ./run events test {name} sends it an event of the type {TEST_TYPE}")
    print_report({"name": name, "kind": kind.value, "secret": secret}, as_json=as_json, show="\n".join(told))


@command.command("remove")
@click.argument("name")
@data_option
@json_option
def remove(*, name: str, data: Path | None, as_json: bool) -> None:
    """Remove a receiver: what it has not received, and its dead letters, are gone."""
    _ask(operators.remove(find_current(data), name))
    print_report({"removed": name}, as_json=as_json, show=f"{name} is removed")


@command.command("pause")
@click.argument("name")
@click.option("--reason", default="paused by an operator", show_default=True, help="Shown in the list.")
@data_option
@json_option
def pause(*, name: str, reason: str, data: Path | None, as_json: bool) -> None:
    """Send nothing to NAME for a while; what it misses is kept for seven days."""
    _ask(operators.pause(find_current(data), name, one_line(reason)))
    print_report({"paused": name}, as_json=as_json, show=f"{name} is paused; ./run events resume {name} goes on")


@command.command("resume")
@click.argument("name")
@data_option
@json_option
def resume(*, name: str, data: Path | None, as_json: bool) -> None:
    """Let NAME go on where it was, after a pause or after its receiver had failed for too long.

    Of one that is neither paused nor disabled the receiver is asked at once, in place of after its next pause; so are
    events that are retried.
    """
    _ask(operators.resume(find_current(data), name))
    show = f"{name} goes on where it was; what waited for its next try is sent now"
    print_report({"resumed": name}, as_json=as_json, show=show)


@command.command("secret")
@click.argument("name")
@click.option("--keep", default="24h", show_default=True, help="How long the present secret signs, too (90m, 24h, 7d).")
@data_option
@json_option
def secret(*, name: str, keep: str, data: Path | None, as_json: bool) -> None:
    """Give a webhook a new secret. Until the old one ends, calls carry both signatures."""
    found = _ask(operators.new_secret_of(find_current(data), name, _duration(keep)))
    show = f"calls of {name} are signed with {found}; for {keep} with the old secret, too"
    print_report({"name": name, "secret": found}, as_json=as_json, show=show)


@command.command("test")
@click.argument("name")
@data_option
@json_option
def test(*, name: str, data: Path | None, as_json: bool) -> None:
    """Send one event of the type sink.test to NAME, from here. Exit status 1 if it is not accepted.

    If it is accepted, whatever waits for NAME's next try is sent now.
    """
    sinks, failure = _ask(_send_test(find_current(data), name))
    reason = "" if failure is None else failure.reason
    show = (
        f"{name} has accepted it{_next(name, sinks)}"
        if failure is None
        else f"not accepted: {reason}{_advice(name, reason)}"
    )
    print_report({"accepted": failure is None, "reason": reason}, as_json=as_json, show=show)
    sys.exit(0 if failure is None else 1)


@command.command("dead")
@click.argument("name", required=False)
@data_option
@json_option
def dead(*, name: str | None, data: Path | None, as_json: bool) -> None:
    """Show dead letters, events that a receiver refused for three days: the oldest 1,000 of each SET.

    Exit status 1 if there are any.
    """
    letters = [
        {
            "sink": one.sink, "set": set_name, "event_id": one.event_id, "tries": one.tries,
            "since": one.since.isoformat(), "reason": one.reason, "event": json.loads(one.body),
        }
        for set_name, one in _ask(operators.dead(find_current(data), name, DEAD_SHOWN))
    ]  # fmt: skip
    show: Show | str = (
        (lambda console: print_table(console, _dead_table(letters))) if letters else "no event was given up"
    )
    print_report({"dead": letters}, as_json=as_json, show=show)
    sys.exit(1 if letters else 0)


@command.command("redrive")
@click.argument("name")
@click.argument("event_id", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All dead letters of NAME, and all that it refuses.")
@click.option("--drop", "dropping", is_flag=True, help="Delete dead letters in place of sending them.")
@data_option
@json_option
def redrive(
    *, name: str, event_id: tuple[str, ...], everything: bool, dropping: bool, data: Path | None, as_json: bool
) -> None:
    """Send dead letters of NAME, and events that it refuses, now, after its receiver was mended.

    For both the three days of tries begin anew. Events that wait behind one of their envelope follow it. Exit status 1
    if an event is not among them.
    """
    if everything == bool(event_id) or (dropping and everything):
        raise click.UsageError("name events, or say --all; --drop takes names only")
    access = find_current(data)
    result, said = _drop(access, name, event_id) if dropping else _redrive(access, name, event_id)
    print_report(result, as_json=as_json, show="\n".join(said))
    sys.exit(0 if set(event_id) <= set(result["events"]) else 1)


@command.command("tail")
@click.option("--envelope", metavar="ID", help="Only events of this envelope.")
@click.option("--type", "types", multiple=True, metavar="EVENT", help="Only these events; repeat it for several.")
@data_option
@json_option
def tail(*, envelope: str | None, types: tuple[str, ...], data: Path | None, as_json: bool) -> None:
    """Print events as they are committed, until Ctrl-C; with --json one CloudEvent a line."""
    if wrong := [one for one in types if one not in TYPES]:
        raise Refused("unknown_event", f"there is no event {wrong[0]!r}; there are {', '.join(TYPES)}")
    if not as_json:
        click.echo("following; Ctrl-C ends it", err=True)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_tail(find_current(data), envelope, frozenset(types), as_json=as_json))


async def _tail(access: Any, envelope: str | None, types: frozenset[str], *, as_json: bool) -> None:
    async for set_name, event in follow(access):
        if (envelope is None or str(event.envelope_id) == envelope) and (not types or event.type in types):
            print_output(event.body.decode() if as_json else _line(set_name, event))


def _line(set_name: str, event: Event) -> str:
    told = json.loads(event.body)
    data = {name: value for name, value in told["data"].items() if name != "envelope_id" and not name.endswith("_at")}
    said = " ".join(f"{name}={value}" for name, value in data.items() if value != "" and value is not False)
    return f"{told['time'][11:23]}  {set_name}  {event.envelope_id}  {event.type:<17}  {said}"


async def _send_test(access: Any, name: str) -> tuple[list[Sink], Failed | None]:
    """Return the sink in each SET as it was before, and how the call failed; wakes what waits if it did not."""
    sinks = await operators.of_name(access, name)
    failure = await _send_one(sinks[0].target)
    if failure is None:
        # What the receiver has answered is told, also if a SET is away by now.
        with contextlib.suppress(Unavailable, Refused):
            await operators.wake_up(access, name)
    return sinks, failure


async def _send_one(target: Target) -> Failed | None:
    sender = sender_of(target)
    at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    number = f"test.{secrets.token_hex(8)}"
    told = {
        "specversion": "1.0", "id": number, "source": SOURCE, "type": TEST_TYPE,
        "subject": "test", "time": at, "datacontenttype": "application/json", "data": {"sink": target.name},
    }  # fmt: skip
    try:
        return await sender.send([Event(0, number, TEST_TYPE, json.dumps(told).encode())])
    finally:
        await sender.close()


def _next(name: str, sinks: list[Sink]) -> str:
    """Say what follows from an accepted test."""
    if any(one.state != State.ACTIVE for one in sinks):
        return f"; it is {_worst(sinks)}: ./run events resume {name} goes on where it was"
    if any(one.failing_since is not None or one.retried for one in sinks):
        return "; what waited for its next try is sent now"
    return ""


def _drop(access: Any, name: str, event_ids: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Delete dead letters; returns the report, and the lines that say it."""
    done = _ask(operators.drop(access, name, event_ids))
    missing = [one for one in dict.fromkeys(event_ids) if one not in done]
    said = [f"{counted(len(done), 'event')} deleted", *(_no_letter(name, one) for one in missing)]
    return {"events": done, "unknown": missing}, said


def _redrive(access: Any, name: str, event_ids: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Have these events sent again (none: all); returns the report, and the lines that say it."""
    again = _ask(operators.redrive(access, name, event_ids or None))
    done = [*again.dead, *again.retried]
    missing = [one for one in dict.fromkeys(event_ids) if one not in done]
    said = [_sent_again(again), *(_not_sent(name, one, again) for one in missing)]
    unknown = [one for one in missing if one not in again.waiting]
    return {"events": done, "retried": again.retried, "unknown": unknown}, said


def _sent_again(again: Redriven) -> str:
    """Return how many events are sent now: of dead letters, and of those that were retried."""
    number, dead = len(again.dead) + len(again.retried), counted(len(again.dead), "dead letter")
    return f"{counted(number, 'event')} sent again: {dead}, {len(again.retried)} retried"


def _not_sent(name: str, event_id: str, again: Redriven) -> str:
    if event_id in again.waiting:
        return f"{event_id} is on its way, or waits behind an earlier event of its envelope: send that one again"
    what = f"there is no event {event_id[:64]!r} among the dead letters of {name} and what it refuses"
    return f"{what}; ./run events dead {name} and ./run events list name them"


def _no_letter(name: str, event_id: str) -> str:
    return f"there is no dead letter {event_id[:64]!r} of {name}; ./run events dead {name} lists them"


def _advice(name: str, reason: str) -> str:
    """Return what to look at first, by what the receiver answered; "" if that says it."""
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


def _ask(what: Coroutine[Any, Any, T]) -> T:
    with working("asking the SETs"):
        return asyncio.run(what)


def _duration(text: str) -> timedelta:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise Refused("duration_invalid", f"{text[:20]!r} is no duration; write 90m, 24h or 7d")
    unit = {"m": "minutes", "h": "hours", "d": "days"}[found[2]]
    return timedelta(**{unit: int(found[1])})


def _sink_json(name: str, found: list[SetSinks]) -> dict[str, Any]:
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


def _sinks_table(sinks: list[dict[str, Any]]) -> Table:
    table = Table("sink", "state", "behind", "delivered", "retried", "dead", "receiver", "what it needs")
    for one in sinks:
        behind = "-" if not one["behind_s"] else f"{one['behind_s']:,.0f} s"
        table.add_row(
            one["name"], one["state"], behind, f"{one['delivered']:,}", str(one["retried"]), str(one["dead"]),
            escape(one["url"]), escape("\n".join(one["needs"])),
        )  # fmt: skip
    return table


def _dead_table(letters: list[dict[str, Any]]) -> Table:
    table = Table("sink", "event", "tries", "since", "reason")
    for one in letters:
        table.add_row(one["sink"], one["event_id"], str(one["tries"]), one["since"][:16], escape(one["reason"]))
    return table
