"""`hongbao backup`: base copies of a SET's Postgres, the log that follows them, and back to any instant since."""

import asyncio
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from audit.report import Report
from cluster.access import Access, find
from cluster.commands.audit import show as show_audit
from cluster.pg import roles
from cluster.pg.backups import Backups
from cluster.pg.logkeeper import LogKeeper, Standing
from cluster.pg.pgprograms import Source
from cluster.reporting import data_option, json_option, report
from envelope.errors import Refused, Unavailable
from upkeep.backup import BackupFolder, LogState

folder_option = click.option(
    "--folder", required=True, type=click.Path(path_type=Path, file_okay=False), help="Where the backups are."
)

_TOLD = {
    LogState.NONE: "nobody keeps it; only the copies can be had back",
    LogState.KEPT: "kept",
    LogState.AWAY: "[bold]no `backup log` is connected[/]; the server keeps it for a while",
    LogState.BEHIND: "[bold]received too slowly[/]",
    LogState.LOST: "[bold]lost[/]: `backup log --anew`, then `backup take`",
    None: "not compared, the server is away",
}
_WELL = {LogState.NONE, LogState.KEPT}


@click.group("backup")
def command() -> None:
    """Back up a SET (or `wallet`) and bring it back to any instant. Works beside any traffic."""


@command.command("take")
@click.argument("server")
@folder_option
@data_option
@json_option
def take(*, server: str, folder: Path, data: Path | None, as_json: bool) -> None:
    """Copy the whole cluster of SERVER (set-1, wallet) and verify the copy."""
    backups = _backups(find(data), server, folder)
    with Console(stderr=True).status(f"copying {server}"):
        base = asyncio.run(backups.take())
    found = {"server": server, "path": str(base.path), "taken_at": base.taken_at.isoformat()}
    report(found, as_json=as_json, show=f"{server} is in {base.path}, verified")


@command.command("log")
@click.argument("server")
@folder_option
@click.option("--anew", is_flag=True, help="Put the log kept so far aside and begin one that does not follow it.")
@data_option
def log(*, server: str, folder: Path, anew: bool, data: Path | None) -> None:
    """Keep the log of SERVER as it is written, until Ctrl-C; started again it goes on where it was left.

    It outlives restarts of the stack. Exit status 1 when the server has thrown away what was not received yet: then
    start it with --anew and take a base copy.
    """
    keeper = _keeper(data, server, folder)
    click.echo(f"keeping the log of {server} in {folder}; Ctrl-C ends it", err=True)
    asyncio.run(_receive(keeper, anew=anew))


@command.command("list")
@click.argument("server")
@folder_option
@data_option
@json_option
def list_(*, server: str, folder: Path, data: Path | None, as_json: bool) -> None:
    """Show the base copies of SERVER, whether the log behind each is whole, and whether it is being kept.

    Exit status 1 when what the server has written cannot be had back from the newest copy: the log behind it has a
    hole, or it is not received just now. Without a running stack only the folder is looked at.
    """
    backups = BackupFolder(folder.absolute(), server)
    found = [
        {"path": str(base.path), "taken_at": base.taken_at.isoformat(), "missing": backups.gap_after(base)}
        for base in backups.bases()
    ]
    log = _standing(_keeper(data, server, folder))

    def show(console: Console) -> None:
        console.print(_table(found))
        behind = "" if log is None or log.behind_bytes is None else f", {log.behind_bytes:,} bytes behind the server"
        console.print(f"log: {_TOLD[log.state if log else None]}{behind}")

    told = {"log": log.state if log else "unknown", "behind_bytes": log.behind_bytes if log else None}
    report({"server": server, "bases": found, **told}, as_json=as_json, show=show)
    sys.exit(1 if (log is not None and log.state not in _WELL) or (found and found[-1]["missing"]) else 0)


@command.command("restore")
@click.argument("server")
@folder_option
@click.option("--into", required=True, type=click.Path(path_type=Path), help="A new folder for the restored cluster.")
@click.option("--until", help="Instant (ISO 8601, with a zone) to go back to.  [default: the end of the log]")
@data_option
@json_option
def restore(*, server: str, folder: Path, into: Path, until: str | None, data: Path | None, as_json: bool) -> None:
    """Make SERVER as it was at an instant, under another folder, and audit it there beside the rest of the stack.

    The running cluster is not touched. Exit status 0 only when the audit holds: an instant before the last payouts is
    behind the wallet, and the audit names every fen of it.
    """
    access = find(data)
    with Console(stderr=True).status(f"restoring {server}"):
        path, found = asyncio.run(_restore(access, _backups(access, server, folder), into, _instant(until)))

    def show(console: Console) -> None:
        console.print(f"{server} is restored in {path}")
        show_audit(found, console)

    report({"server": server, "path": str(path), "audit": found.as_json()}, as_json=as_json, show=show)
    sys.exit(0 if found.holds else 1)


async def _receive(keeper: LogKeeper, *, anew: bool) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await keeper.receive(stop, anew=anew)


def _standing(keeper: LogKeeper) -> Standing | None:
    """Return how the log stands; None where there is no server to compare it with."""
    try:
        return asyncio.run(keeper.standing())
    except Unavailable:
        return None
    except Refused as refusal:
        if refusal.code != "not_up":
            raise
        return None


async def _restore(access: Access, backups: Backups, into: Path, until: datetime | None) -> tuple[Path, Report]:
    server = await backups.restore(into, until)
    try:
        found = await access.audit(instead={backups.source.name: server.dsn(roles.AUDIT, roles.DATABASE)})
    finally:
        await server.stop()
    return server.spec.folder, found


def _source(access: Access, server: str) -> Source:
    return Source(server, access.superuser_dsn(server), access.passwords(server))


def _backups(access: Access, server: str, folder: Path) -> Backups:
    return Backups(_source(access, server), folder)


def _keeper(data: Path | None, server: str, folder: Path) -> LogKeeper:
    def say(text: str) -> None:
        click.echo(text, err=True)

    return LogKeeper(lambda: _source(find(data), server), BackupFolder(folder.absolute(), server), say)


def _instant(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        instant = datetime.min  # noqa: DTZ901 - no zone, so it is refused below
    if instant.tzinfo is None:
        raise Refused("malformed_instant", f"{text[:50]!r} is no instant; write it as 2026-11-21T10:15:00+08:00")
    return instant.astimezone(UTC)


def _table(found: list[dict[str, Any]]) -> Table:
    table = Table("base copy", "taken at", "log behind it")
    for one in found:
        table.add_row(one["path"], one["taken_at"][:19], f"lacks {one['missing']}" if one["missing"] else "whole")
    return table
