"""`hongbao topology`: which SET holds which database, what adding or removing a SET would move, moving one."""

import asyncio
import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from installation.access import Access
from installation.finding import find_current
from moving.context import context_of
from moving.journal import Entry, open_moves
from moving.moves import NOT_BEGUN, Outcome, abort, move_by_time, move_live, plan_move
from moving.take_back import UNDOING
from published.addresses import publish_addresses
from runtime.reporting import data_option, json_option, print_report, working
from runtime.tables import print_table
from runtime.wording import counted
from sharding.ids import FIRST_YEAR, LAST_YEAR
from sharding.slots import database_name
from sharding.topology import Topology
from sharding.topology.balance import to_balance
from sharding.topology.changes import to_add, to_remove


@click.group("topology")
def command() -> None:
    """Show, plan and change which SET holds which database."""


@command.command("show")
@data_option
@json_option
def show(*, data: Path | None, as_json: bool) -> None:
    """Show the SETs, their servers and databases, and the moves that are in progress."""
    access = find_current(data)
    topology = access.topology()
    with working("asking the SETs"):
        pending, away = asyncio.run(_pending(access))
    found = {
        "version": topology.version, "slots": topology.slots, "sets": _sets(topology), "moves": pending, "away": away,
    }  # fmt: skip
    print_report(found, as_json=as_json, show=lambda console: _show(found, console))


@command.command("apply")
@click.option("--slots", default=1000, show_default=True, help="Of the first topology; no later one can change them.")
@data_option
@json_option
def apply(*, slots: int, data: Path | None, as_json: bool) -> None:
    """Publish the servers and addresses of the installation file, the first time or after they have changed.

    The databases must be of this release's schema (`hongbao migrate`). Databases stay where they are; a new SET holds
    none until they are moved to it (`plan`).
    """
    access = find_current(data)
    with working("publishing"):
        new, behind = asyncio.run(_apply(access, slots))
    later = f"; {', '.join(behind)} did not answer, its servers ask the wallet" if behind else ""
    show = f"version {new.version} is published{later}"
    print_report({"version": new.version, "behind": behind}, as_json=as_json, show=show)


async def _apply(access: Access, slots: int) -> tuple[Topology, list[str]]:
    publisher = access.publisher()
    new = await publish_addresses(publisher, access.set_specs(), wallet_url=access.wallet_url, slots=slots)
    return new, list(publisher.behind)


@command.command("plan")
@click.option("--add", metavar="SET", help="The SET to add.")
@click.option(
    "--weight",
    default=1,
    show_default=True,
    type=click.IntRange(1, 100),
    help="The new SET's share relative to others.",
)
@click.option("--remove", metavar="SET", help="The SET to remove.")
@click.option("--balance", is_flag=True, help="Give each SET its share, with as few moves as possible.")
@data_option
@json_option
def plan(*, add: str | None, weight: int, remove: str | None, balance: bool, data: Path | None, as_json: bool) -> None:
    """Show which databases to move so that a SET is added or removed, or all have even shares. Changes nothing.

    --add moves what a ring of all SETs would give the new one, and nothing else; --balance afterwards makes it even.
    """
    if [add is not None, remove is not None, balance].count(True) != 1:
        raise click.UsageError("say one of --add SET, --remove SET and --balance")
    topology = find_current(data).topology()
    if balance:
        moves = to_balance(topology)
    else:
        moves = to_add(topology, add, weight) if add is not None else to_remove(topology, remove or "")
    found = {
        "databases": topology.layout.databases,
        "moves": [_planned(database_name(xx), old, new) for xx, (old, new) in sorted(moves.items())],
    }
    print_report(found, as_json=as_json, show=lambda console: _show_plan(found, console))


def _planned(name: str, old: str, new: str) -> dict[str, str]:
    return {"database": name, "from": old, "to": new, "command": f"./run topology move {name} --to {new} --yes"}


@command.command("move")
@click.argument("database")
@click.option("--to", metavar="SET", help="The new SET; not needed to continue a move in progress.")
@click.option("--from-date", type=click.DateTime(["%Y-%m-%d"]), help="First business date of the new SET.")
@click.option(
    "--live", is_flag=True, help="Now, with all its days, by logical replication; a stall of two seconds at most."
)
@click.option("--finish", is_flag=True, help="Move the old days of a move by time in progress.")
@click.option(
    "--abort", "aborting", is_flag=True,
    help="Undo a live move before its cutover, or a move by time while its first date has no envelope.",
)  # fmt: skip
@click.option("--yes", "sure", is_flag=True, help="Begin; without it a new move is only shown.")
@data_option
@json_option
def move(
    *,
    database: str,
    to: str | None,
    from_date: datetime | None,
    live: bool,
    finish: bool,
    aborting: bool,
    sure: bool,
    data: Path | None,
    as_json: bool,
) -> None:
    """Move DATABASE (db_07) to another SET, from a date on or (--live) now. A repeated call continues where it stopped.

    By time: from the date on new envelopes are created in the new SET; a call after the days before are over copies
    these, compares them and switches reads. Without --yes a move that is not begun yet is shown, and nothing changes.
    Exit status 0 if what was asked is done or shown, 1 if days stay for now.
    """
    if live and (from_date is not None or finish):
        raise click.UsageError("--live moves all days at once; --from-date and --finish are for a move by time")
    day = None if from_date is None else from_date.date()
    # A move by time looks for envelopes up to the end of the year after.
    if day is not None and not FIRST_YEAR <= day.year < LAST_YEAR:
        raise click.UsageError(f"--from-date {day}: IDs of envelopes reach from {FIRST_YEAR} to {LAST_YEAR}")
    access = find_current(data)
    planned = None
    if not (sure or finish or aborting):
        how = "live" if live else "by_time"
        planned = asyncio.run(plan_move(context_of(access), database, to, day, how=how))
    outcome = planned or asyncio.run(_move(access, database, to, day, live=live, finish=finish, aborting=aborting))
    print_report(outcome.as_json(), as_json=as_json, show=lambda console: _show_outcome(outcome, console))
    sys.exit(1 if outcome.left else 0)


async def _move(
    access: Access, database: str, to: str | None, day: date | None, *, live: bool, finish: bool, aborting: bool
) -> Outcome:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"moving {database}", total=None)

        def show_progress(what: str, done: int, total: int) -> None:
            progress.update(task, description=what, completed=done, total=total)

        context = context_of(access, show_progress)
        if aborting:
            return await abort(context, database)
        if live:
            return await move_live(context, database, to)
        return await move_by_time(context, database, to, day, finish=finish)


async def _pending(access: Access) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the moves in progress, and the SETs that do not answer."""
    journals, today = await open_moves(context_of(access)), access.today()
    moves = [
        {
            "database": one.route.name,
            "kind": one.kind,
            "from": one.route.source,
            "to": one.route.target,
            "valid_from": None if one.valid_from is None else str(one.valid_from),
            "step": one.step,
            "next": _next(one, today),
        }
        for one in journals.moves
    ]
    return moves, sorted(journals.away)


def _next(one: Entry, today: date) -> str:
    """Say what an open move waits for, and which command takes it further."""
    again = f"run: topology move {one.route.name}"
    if one.note.get(UNDOING):
        return f"being taken back; {again} --abort"
    if one.step != "given_up" or one.valid_from is None:
        return f"step {one.step} is done; {again} to continue, --abort to undo"
    if today < one.valid_from:
        return f"handed over from {one.valid_from} on; then {again} (--abort takes it back until then)"
    return f"handed over; once the days before {one.valid_from} are over, {again}"


def _sets(topology: Topology) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "weight": one.weight,
            "paused": one.paused,
            "servers": [{"name": server.name, "url": server.url, "drained": server.drained} for server in one.servers],
            "databases": [
                database_name(xx)
                for xx in range(topology.layout.databases)
                if topology.set_for_database(xx).name == one.name
            ],
        }
        for one in topology.sets
    ]


def _show(found: dict[str, Any], console: Console) -> None:
    table = Table("SET", "weight", Column("servers", no_wrap=True), "databases")
    for one in found["sets"]:
        servers = "\n".join(
            f"{server['name']} {server['url']}{' [yellow]drained[/]' if server['drained'] else ''}"
            for server in one["servers"]
        )
        names = ", ".join(name.removeprefix("db_") for name in one["databases"])
        table.add_row(
            f"{one['name']} [yellow]paused[/]" if one["paused"] else one["name"], str(one["weight"]), servers,
            f"{len(one['databases'])}: {names}" if names else "none",
        )  # fmt: skip
    print_table(console, table)
    console.print(f"version {found['version']}, {counted(found['slots'], 'slot')}")
    if found["moves"]:
        moves = Table("moving", "how", "from", "to", "from date", "next")
        for one in found["moves"]:
            how = one["kind"].replace("_", " ")
            moves.add_row(one["database"], how, one["from"], one["to"], one["valid_from"] or "now", one["next"])
        print_table(console, moves)
    if found["away"]:
        console.print(f"[yellow]{', '.join(found['away'])} do not answer: moves begun by them are not shown[/]")


def _show_plan(found: dict[str, Any], console: Console) -> None:
    moves = found["moves"]
    if not moves:
        console.print("no database would move")
        return
    table = Table("database", "from", "to", Column("command", no_wrap=True))
    for one in moves:
        table.add_row(one["database"], one["from"], one["to"], one["command"])
    print_table(console, table)
    share = len(moves) / found["databases"]
    moving = f"{len(moves)} of {counted(found['databases'], 'database')} would move ({share:.0%})"
    console.print(f"{moving}, one after the other; --live instead moves a database with its old days at once")


def _show_outcome(outcome: Outcome, console: Console) -> None:
    name, to = outcome.database, outcome.target
    if outcome.step == NOT_BEGUN:
        when = "now, with all its days" if outcome.valid_from is None else f"for envelopes from {outcome.valid_from} on"
        console.print(f"{name} would go from {outcome.source} to {to} {when}; nothing was changed, --yes begins it")
    elif outcome.step == "aborted":
        console.print(f"the move of {name} is undone; the database is on {outcome.source} as before")
    elif outcome.complete:
        console.print(f"[green]{name} is on {to}[/green], with all its days: {_figures(outcome)}")
    elif outcome.left:
        console.print(f"{name}: days up to {max(outcome.left)} stay on {outcome.source} until they are archived;")
        console.print("run this again then. All later days have moved.")
    else:
        console.print(f"from {outcome.valid_from} on envelopes of {name} are created on {to};")
        console.print(f"run this again once the days before are over: it moves them to {to}, too")


def _figures(outcome: Outcome) -> str:
    figures = outcome.figures
    envelopes, claims = counted(figures.get("envelopes", 0), "envelope"), counted(figures.get("claims", 0), "claim")
    stall = f"; stall {figures['stall_s']:.3f} s" if "stall_s" in figures else ""
    return f"{envelopes}, {claims}, compared and equal{stall}"
