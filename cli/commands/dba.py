"""`hongbao dba`: reports on each SET's database; takes servers and SETs out of service."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table

from cli.envelope_id import read_envelope_id
from errors import Unavailable
from inspection.database import DatabaseFigures, inspect_database
from inspection.hot import Hot, hottest
from inspection.where import Where, where
from installation.access import Access
from installation.finding import find_current
from moving.limits import GRACE_S
from moving.servers import all_follow
from runtime.reporting import Show, data_option, json_option, print_report, working
from runtime.tables import print_table
from runtime.wording import counted
from sharding.topology import Topology
from sharding.topology.changes import drained, paused
from sharding.topology.service import out_of_service

_MB = 1024 * 1024


@click.group("dba", invoke_without_command=True)
@click.option("--set", "set_name", help="Only this SET.")
@data_option
@json_option
@click.pass_context
def command(context: click.Context, *, set_name: str | None, data: Path | None, as_json: bool) -> None:
    """Show catalog size, connections, vacuum age, bloat, slowest statements, and which table names are reused next.

    For a SET that does not answer the error is shown instead, and the exit status is 1.
    """
    if context.invoked_subcommand is not None:
        return
    access = find_current(data)
    with working("inspecting the databases"):
        found = asyncio.run(_look(access, set_name))
    stopped = out_of_service(access.topology())
    sets = [{**one, "out_of_service": stopped.get(one["set"], "")} for one in msgspec.to_builtins(found)]
    print_report({"sets": sets}, as_json=as_json, show=lambda console: _show(found, stopped, console))
    sys.exit(1 if any(isinstance(one, Away) for one in found) else 0)


@command.command("hot")
@click.option("--top", default=10, show_default=True, type=click.IntRange(1, 100), help="How many of each server.")
@data_option
@json_option
def hot(*, top: int, data: Path | None, as_json: bool) -> None:
    """Show the envelopes that were opened most in the last minute, and the table of each."""
    with working("asking the servers"):
        found = asyncio.run(hottest(find_current(data), top))
    none = "no envelope was opened in the last minute"
    show: Show | str = (lambda console: print_table(console, _hot(found))) if found else none
    print_report({"hot": msgspec.to_builtins(found)}, as_json=as_json, show=show)


@command.command("where")
@click.argument("envelope_id", metavar="ID")
@data_option
@json_option
def where_(*, envelope_id: str, data: Path | None, as_json: bool) -> None:
    """Show where the envelope of this ID, or share ID, is: SET, tables, state of its day, escrow account, orders."""
    access = find_current(data)
    found = asyncio.run(where(access, read_envelope_id(envelope_id, access)))
    print_report(msgspec.to_builtins(found), as_json=as_json, show=lambda console: _show_where(found, console))


@command.command("drain")
@click.argument("server")
@data_option
@json_option
def drain(*, server: str, data: Path | None, as_json: bool) -> None:
    """Take SERVER (set-1-a) off the ring: the others of its SET serve its envelopes. No request fails."""
    _change(find_current(data), as_json, lambda old: drained(old, server, away=True), f"{server} is drained")


@command.command("undrain")
@click.argument("server")
@data_option
@json_option
def undrain(*, server: str, data: Path | None, as_json: bool) -> None:
    """Put SERVER back on the ring."""
    _change(find_current(data), as_json, lambda old: drained(old, server, away=False), f"{server} serves again")


@command.command("pause")
@click.argument("set_name", metavar="SET")
@data_option
@json_option
def pause(*, set_name: str, data: Path | None, as_json: bool) -> None:
    """Refuse all requests of users for SET (503 `set_paused`), also after a restart. Expiry and payouts go on."""
    _change(find_current(data), as_json, lambda old: paused(old, set_name, on=True), f"{set_name} is paused")


@command.command("resume")
@click.argument("set_name", metavar="SET")
@data_option
@json_option
def resume(*, set_name: str, data: Path | None, as_json: bool) -> None:
    """Serve the users of SET again."""
    _change(find_current(data), as_json, lambda old: paused(old, set_name, on=False), f"{set_name} serves again")


def _change(access: Access, as_json: bool, how: Callable[[Topology], Topology], done: str) -> None:
    """Change the topology, and wait until every process uses it and all requests admitted before are answered."""

    async def change() -> Topology:
        new = await access.publisher().change_topology(how)
        await all_follow(new, *(one.name for one in new.sets), tls=access.tls)
        # Gateways hear of it as soon as servers do, but do not report it.
        await asyncio.sleep(GRACE_S)
        return new

    with working("waiting until every process uses the new topology"):
        new = asyncio.run(change())
    print_report({"version": new.version, "done": done}, as_json=as_json, show=done)


class Away(msgspec.Struct, frozen=True):
    """A SET that does not answer; `code` is stable."""

    set: str
    code: str
    error: str


async def _look(access: Access, only: str | None) -> list[DatabaseFigures | Away]:
    names = [one.name for one in access.topology().sets]
    selected = names if only is None else [only]
    # `set_dsn` refuses an unknown name.
    return await asyncio.gather(*(_look_at(name, access.set_dsn(name)) for name in selected))


async def _look_at(name: str, dsn: str) -> DatabaseFigures | Away:
    try:
        return await inspect_database(name, dsn)
    except Unavailable as unavailable:
        return Away(name, unavailable.code, unavailable.detail)


def _show(found: list[DatabaseFigures | Away], stopped: dict[str, str], console: Console) -> None:
    for one in found:
        console.print(f"\n[bold]{one.set}[/]")
        if one.set in stopped:
            console.print(f"[bold yellow]{stopped[one.set]}[/]")
        if isinstance(one, Away):
            console.print(f"away: {one.error}")
            continue
        catalog = one.catalog
        console.print(
            f"{counted(catalog.leaves, 'day table')}, {counted(catalog.relations, 'relation')} in "
            f"{counted(catalog.files, 'file')}; catalog"
            f" {catalog.catalog_bytes / _MB:.1f} MB of {catalog.database_bytes / _MB:,.0f} MB in all"
        )
        console.print(
            f"{counted(catalog.lock_slots, 'lock slot')}, {catalog.locks_held} held; oldest transaction ID"
            f" {one.xid_age:,} of {one.xid_forced_at:,} before a forced vacuum"
        )
        days = f"{one.days[0]} to {one.days[-1]}" if one.days else "none"
        console.print(f"tables of {counted(len(one.days), 'date')} ({days}); {_swap(one)}")
        print_table(console, _connections(one))
        if one.bloat:
            print_table(console, _bloat(one))
        if one.statements is None:
            console.print("statements are not counted: load pg_stat_statements (shared_preload_libraries)")
        else:
            print_table(console, _statements(one))


def _swap(one: DatabaseFigures) -> str:
    if one.next_swap is None:
        return "no table name is reused within a month"
    return f"{one.next_swap} reuses the table names of an older date, which must be rotated before"


def _connections(one: DatabaseFigures) -> Table:
    table = Table("role", "program", "state", "connections", "oldest transaction", "memory")
    for row in one.connections:
        age = "" if row.oldest_transaction_s is None else f"{row.oldest_transaction_s:.1f} s"
        memory = "?" if row.memory_bytes is None else f"{row.memory_bytes / _MB:.1f} MB"
        table.add_row(row.role, row.program, row.state, str(row.connections), age, memory)
    return table


def _bloat(one: DatabaseFigures) -> Table:
    table = Table("table", "live", "dead", "MB", "vacuumed")
    for row in one.bloat:
        vacuumed = (row.vacuumed_at or "never")[:19]
        table.add_row(row.name, f"{row.live:,}", f"{row.dead:,}", f"{row.bytes / _MB:.1f}", vacuumed)
    return table


def _statements(one: DatabaseFigures) -> Table:
    table = Table("statement", "calls", "total s", "mean ms", "most ms", "rows")
    for row in one.statements or ():
        table.add_row(
            row.query[:80], f"{row.calls:,}", f"{row.total_ms / 1e3:.1f}", f"{row.mean_ms:.2f}", f"{row.max_ms:.1f}",
            f"{row.rows:,}",
        )  # fmt: skip
    return table


def _show_where(one: Where, console: Console) -> None:
    seen = {True: "the envelope is there", False: "no such envelope is there", None: "no table to look into"}[one.found]
    if one.state == "dropped":
        seen = 'its day is in the archive alone: ./run query "SELECT … FROM envelope WHERE …"'
    rows = {
        "SET": one.set, "database": one.database, "day": f"{one.day}, {one.state}: {seen}",
        "tables": ", ".join(one.tables) or "none", "escrow": f"{one.escrow} in the wallet",
        "order numbers": one.orders,
    }  # fmt: skip
    for name, text in rows.items():
        console.print(f"{name:<14}{text}", highlight=False, soft_wrap=True, markup=False)
    if one.tables:
        look = f'./run psql {one.set} -c "SELECT * FROM {one.tables[1]} WHERE envelope_id = {one.envelope_id}"'  # noqa: S608 - printed
        console.print(look, highlight=False, soft_wrap=True, markup=False)


def _hot(found: list[Hot]) -> Table:
    table = Table("envelope", "SET", "server", "table", "opened in a minute", "waiting", "left")
    for one in found:
        table.add_row(
            one.envelope_id, one.set, one.server, one.table, str(one.opened), str(one.waiting), str(one.shares_left)
        )
    return table
