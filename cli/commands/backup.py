"""`hongbao backup`: base copies of a SET's Postgres, the log after them, and a restore to any instant since."""

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
from backup.backups import Backups
from backup.folder import BackupFolder, LogState
from backup.logkeeper import LogKeeper, LogStatus
from backup.programs import Source
from cli.commands.audit import show as show_audit
from errors import Refused, Unavailable
from installation.access import Access, find
from runtime.reporting import data_option, json_option, print_report, print_table
from schema import roles

folder_option = click.option(
    "--folder", required=True, type=click.Path(path_type=Path, file_okay=False), help="Where the backups are."
)

_LOG_STATES = {
    LogState.NONE: "not kept; only the base copies can be restored",
    LogState.KEPT: "kept",
    LogState.AWAY: "[bold]no `backup log` is connected[/]; the server retains it for a while",
    LogState.BEHIND: "[bold]received too slowly[/]",
    LogState.LOST: "[bold]lost[/]: `backup log --anew`, then `backup take`",
    None: "unknown, the server does not answer",
}
_GOOD = {LogState.NONE, LogState.KEPT}


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
    print_report(found, as_json=as_json, show=f"{server} is in {base.path}, verified")


@command.command("log")
@click.argument("server")
@folder_option
@click.option("--anew", is_flag=True, help="Set aside the log received so far; begin a new one after a gap.")
@data_option
def log(*, server: str, folder: Path, anew: bool, data: Path | None) -> None:
    """Receive the log of SERVER as it is written, until Ctrl-C; a later call continues where this one ended.

    It survives restarts of the stack. Exit status 1 if the server has removed log that was not received yet: then
    start it with --anew and take a base copy.
    """
    keeper = _keeper(data, server, folder)
    click.echo(f"receiving the log of {server} in {folder}; Ctrl-C ends it", err=True)
    asyncio.run(_receive(keeper, anew=anew))


@command.command("list")
@click.argument("server")
@folder_option
@data_option
@json_option
def list_(*, server: str, folder: Path, data: Path | None, as_json: bool) -> None:
    """Show the base copies of SERVER, whether the log after each is complete, and whether it is being received.

    Exit status 1 if the newest copy cannot be restored up to now: the log after it has a gap, or is not being received.
    While the server is down only the folder is read.
    """
    backups = BackupFolder(folder.absolute(), server)
    found = [
        {"path": str(base.path), "taken_at": base.taken_at.isoformat(), "missing": backups.gap_after(base)}
        for base in backups.bases()
    ]
    log = _standing(_keeper(data, server, folder))

    def show(console: Console) -> None:
        print_table(console, _table(found))
        behind = "" if log is None or log.behind_bytes is None else f", {log.behind_bytes:,} bytes behind the server"
        console.print(f"log: {_LOG_STATES[log.state if log else None]}{behind}")

    log_json = {"log": log.state if log else "unknown", "behind_bytes": log.behind_bytes if log else None}
    print_report({"server": server, "bases": found, **log_json}, as_json=as_json, show=show)
    sys.exit(1 if (log is not None and log.state not in _GOOD) or (found and found[-1]["missing"]) else 0)


@command.command("restore")
@click.argument("server")
@folder_option
@click.option("--into", required=True, type=click.Path(path_type=Path), help="A new folder for the restored cluster.")
@click.option("--until", help="Instant (ISO 8601, with a zone) to restore.  [default: the end of the log]")
@data_option
@json_option
def restore(*, server: str, folder: Path, into: Path, until: str | None, data: Path | None, as_json: bool) -> None:
    """Restore SERVER as it was at an instant into another folder, and audit it there with the rest of the installation.

    The running cluster is not touched. Exit status 0 only if the audit holds: at an instant before the last payouts the
    copy is behind the wallet, and the audit names every fen of that.
    """
    access = find(data)
    with Console(stderr=True).status(f"restoring {server}"):
        path, found = asyncio.run(_restore(access, _backups(access, server, folder), into, _instant(until)))

    def show(console: Console) -> None:
        console.print(f"{server} is restored in {path}")
        show_audit(found, console)

    print_report({"server": server, "path": str(path), "audit": found.as_json()}, as_json=as_json, show=show)
    sys.exit(0 if found.holds else 1)


async def _receive(keeper: LogKeeper, *, anew: bool) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await keeper.receive(stop, anew=anew)


def _standing(keeper: LogKeeper) -> LogStatus | None:
    """Return the state of the log; None if there is no server to compare it with."""
    try:
        return asyncio.run(keeper.status())
    except Unavailable:
        return None
    except Refused as refusal:
        if refusal.code != "not_installed":
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
    def notify(text: str) -> None:
        click.echo(text, err=True)

    return LogKeeper(lambda: _source(find(data), server), BackupFolder(folder.absolute(), server), notify)


def _instant(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        instant: datetime | None = datetime.fromisoformat(text)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise Refused(
            "malformed_instant", f"{text[:50]!r} is not an instant with a zone; write it as 2026-11-21T10:15:00+08:00"
        )
    return instant.astimezone(UTC)


def _table(found: list[dict[str, Any]]) -> Table:
    table = Table("base copy", "taken at", "log after it")
    for one in found:
        table.add_row(one["path"], one["taken_at"][:19], f"lacks {one['missing']}" if one["missing"] else "complete")
    return table
