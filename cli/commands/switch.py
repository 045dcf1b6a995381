"""`hongbao switch`: closes a kind of request for a while, so that the rest goes on."""

import asyncio
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table

from errors import Refused
from inspection.switch_effect import Effect, effect
from installation.finding import find_current
from published.switching import not_reached
from runtime.login import login
from runtime.reporting import data_option, json_option, print_report
from runtime.tables import print_table
from switches.file import beside, load
from switches.switch import Closes, Switch, check, read_name

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@click.group("switch")
def command() -> None:
    """Close creates, grabs, views, lists, the opens of one SET or database, or payouts, for a while.

    Users hear 503 `degraded` for what is closed, and when to come again. Refunds, cancels and the audit cannot be
    closed. Every process goes by a change within a second.
    """


@command.command("list")
@data_option
@json_option
def list_(*, data: Path | None, as_json: bool) -> None:
    """Show what is closed: by whom, why, until when."""
    access = find_current(data)
    found = [one for one in load(beside(access.topology_path)) if one.until > access.clock.now()]
    report = {"switches": [_shown(one) for one in found]}
    print_report(report, as_json=as_json, show=lambda console: _show(found, console))


def _known(_context: click.Context, _parameter: click.Parameter, name: str) -> str:
    """Refuse a name that nothing has before anything else is asked for."""
    read_name(name)
    return name


@command.command("on")
@click.argument("name", metavar="NAME", callback=_known)
@click.option("--reason", required=True, help="Why, for those who find it closed.")
@click.option("--owner", help="Who answers for it; your login unless given.")
@click.option("--for", "length", default="1h", show_default=True, metavar="TIME", help="How long: 90s, 30m, 4h, 2d.")
@click.option("--dry-run", is_flag=True, help="Show whom it would hit; change nothing.")
@data_option
@json_option
def on(
    *, name: str, reason: str, owner: str | None, length: str, dry_run: bool, data: Path | None, as_json: bool
) -> None:
    """Close NAME: creates, grabs, views, lists, payouts, or opens:SET and opens:db_07.

    All but lists can be closed for one SET, creates, grabs and views for one database, too: creates:set-1.
    """
    access = find_current(data)
    now = access.clock.now().replace(microsecond=0)
    closes, where = read_name(name)
    until, owner = now + _time(length), owner or login()
    one = Switch(closes=closes, where=where, owner=owner, reason=reason, since=now, until=until)
    check(one, access.topology(), now)
    publisher = None if dry_run else access.publisher()
    if publisher is not None:
        # First of all: whom it hits may take seconds to count, or fail, in the hour in which it has to be closed.
        closing = publisher.change_switches(lambda old: [*(was for was in old if was.name != one.name), one], now)
        asyncio.run(closing)
    behind = publisher.behind if publisher else ()
    hits = asyncio.run(effect(access, one))
    report = {"switch": _shown(one), "on": not dry_run, "hits": msgspec.to_builtins(hits), "not_reached": behind}

    def show(console: Console) -> None:
        _show_effect(one, hits, console, dry_run=dry_run)
        if behind:
            console.print(not_reached(behind), highlight=False)

    print_report(report, as_json=as_json, show=show)


@command.command("off")
@click.argument("name", metavar="NAME")
@data_option
@json_option
def off(*, name: str, data: Path | None, as_json: bool) -> None:
    """Open NAME again."""
    access = find_current(data)
    closes, where = read_name(name)
    wanted = f"{closes}:{where}" if where else closes.value

    found: list[Switch] = []

    def without(old: list[Switch]) -> list[Switch]:
        found[:] = old
        return [one for one in old if one.name != wanted]

    publisher = access.publisher()
    # Also what is open here: a database that was not reached by the command before is brought up to it.
    asyncio.run(publisher.change_switches(without, access.clock.now()))
    was_on = wanted in {one.name for one in found}
    if not was_on and wanted not in {one.name for one in publisher.decisions}:
        closed = ", ".join(one.name for one in found) or "nothing"
        raise Refused("not_closed", f"{wanted} is not closed; closed: {closed}")
    report = {"switch": wanted, "on": False, "not_reached": publisher.behind}
    opened = f"{wanted}: open again within a second" if was_on else f"{wanted}: was open; that is published once more"
    said = (opened, not_reached(publisher.behind))
    print_report(report, as_json=as_json, show="\n".join(filter(None, said)))


def _time(text: str) -> timedelta:
    matched = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if matched is None:
        raise click.UsageError(f"--for {text}: write a whole number and s, m, h or d, such as 30m")
    return timedelta(seconds=int(matched[1]) * _UNITS[matched[2]])


def _shown(one: Switch) -> dict[str, Any]:
    return {"name": one.name, **msgspec.to_builtins(one)}


def _show(found: list[Switch], console: Console) -> None:
    if not found:
        console.print("nothing is closed")
        return
    table = Table("closed", "until (UTC)", "owner", "reason", box=None, pad_edge=False)
    for one in found:
        table.add_row(one.name, f"{one.until:%Y-%m-%d %H:%M:%S}", one.owner, one.reason)
    print_table(console, table)


def _show_effect(one: Switch, hits: Effect, console: Console, *, dry_run: bool) -> None:
    closed = "would be closed" if dry_run else "closed"
    console.print(f"{one.name}: {closed} until {one.until:%Y-%m-%d %H:%M:%S} UTC, by {one.owner}: {one.reason}")
    console.print(hits.sentence(), highlight=False)
    if one.closes is Closes.PAYOUTS:
        console.print(
            "shares are won as before, and credited once it is open again; refunds go on. After 15 minutes the audit "
            "calls these payouts late (payout_is_in_time)"
        )
    if not dry_run:
        console.print(f"open it again with ./run switch off {one.name}", highlight=False)
