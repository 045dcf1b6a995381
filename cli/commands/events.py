"""`hongbao events`: who is told of what was committed, how each receiver does, and what was given up."""

import asyncio
import contextlib
import json
import re
import secrets
import sys
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from cli.commands.events_text import (
    TEST_TYPE,
    advice,
    after_test,
    dead_table,
    no_letter,
    not_sent,
    sink_json,
    sinks_table,
    to_send_again,
)
from cli.envelope_id import read_envelope_id
from errors import Refused, Unavailable
from events import operators
from events.event import Event
from events.limits import MAX_BATCH
from events.outcome import Failed, one_line
from events.register import Kind, Sink, Target
from events.retries import Redriven
from events.service import sender_of
from events.tail import follow
from installation.access import Access
from installation.finding import find_current
from runtime.reporting import Show, data_option, json_option, print_output, print_report, working
from runtime.tables import print_table
from runtime.wording import counted
from wire.cloud_events import SOURCE, TYPES

DEAD_SHOWN = 1_000
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
    sinks = [sink_json(name, found) for name in names]
    show: Show | str = (
        (lambda console: print_table(console, sinks_table(sinks)))
        if sinks
        else "nobody is told of events; ./run events add NAME URL adds one to whom they are sent"
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
    """Add the sink NAME at URL: https://… is a webhook, nats://HOST:4222/STREAM a stream of NATS JetStream.

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
    """Remove a sink: what its receiver has not received, and its dead letters, are gone."""
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
    show = f"for {keep} calls of {name} are signed with the old secret, too; the new one is {found}"
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
        f"{name} has accepted it{after_test(name, sinks)}"
        if failure is None
        else f"not accepted: {reason}{advice(name, reason)}"
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
        (lambda console: print_table(console, dead_table(letters))) if letters else "no event was given up"
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
@click.option("--envelope", metavar="ID", help="Only events of this envelope; its share ID will do.")
@click.option("--type", "types", multiple=True, metavar="EVENT", help="Only these events; repeat it for several.")
@data_option
@json_option
def tail(*, envelope: str | None, types: tuple[str, ...], data: Path | None, as_json: bool) -> None:
    """Print events as they are committed, until Ctrl-C; with --json one CloudEvent a line."""
    if wrong := [one for one in types if one not in TYPES]:
        raise Refused("unknown_event", f"there is no event {wrong[0]!r}; there are {', '.join(TYPES)}")
    access = find_current(data)
    envelope_id = None if envelope is None else read_envelope_id(envelope, access)
    if not as_json:
        click.echo("following; Ctrl-C ends it", err=True)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_tail(access, envelope_id, frozenset(types), as_json=as_json))


async def _tail(access: Access, envelope_id: int | None, types: frozenset[str], *, as_json: bool) -> None:
    async for set_name, event in follow(access):
        if (envelope_id is None or event.envelope_id == envelope_id) and (not types or event.type in types):
            print_output(event.body.decode() if as_json else _line(set_name, event))


def _line(set_name: str, event: Event) -> str:
    told = json.loads(event.body)
    data = {name: value for name, value in told["data"].items() if name != "envelope_id" and not name.endswith("_at")}
    said = " ".join(f"{name}={value}" for name, value in data.items() if value != "" and value is not False)
    return f"{told['time'][:10]} {told['time'][11:23]}Z  {set_name}  {event.envelope_id}  {event.type:<17}  {said}"


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


def _drop(access: Any, name: str, event_ids: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Delete dead letters; returns the report, and the lines that say it."""
    done = _ask(operators.drop(access, name, event_ids))
    missing = [one for one in dict.fromkeys(event_ids) if one not in done]
    said = [f"{counted(len(done), 'event')} deleted", *(no_letter(name, one) for one in missing)]
    return {"events": done, "unknown": missing}, said


def _redrive(access: Any, name: str, event_ids: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Have these events sent again (none: all); returns the report, and the lines that say it."""
    again, sinks = _ask(_redrive_all(access, name, event_ids))
    done = [*again.dead, *again.retried]
    missing = [one for one in dict.fromkeys(event_ids) if one not in done]
    said = [to_send_again(name, sinks, again), *(not_sent(name, one, again) for one in missing)]
    unknown = [one for one in missing if one not in again.waiting]
    return {"events": done, "retried": again.retried, "unknown": unknown}, said


async def _redrive_all(access: Any, name: str, event_ids: Sequence[str]) -> tuple[Redriven, list[Sink]]:
    return await operators.redrive(access, name, event_ids or None), await operators.of_name(access, name)


def _ask(what: Coroutine[Any, Any, T]) -> T:
    with working("asking the SETs"):
        return asyncio.run(what)


def _duration(text: str) -> timedelta:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise Refused("duration_invalid", f"{text[:20]!r} is no duration; write 90m, 24h or 7d")
    unit = {"m": "minutes", "h": "hours", "d": "days"}[found[2]]
    return timedelta(**{unit: int(found[1])})
