"""`hongbao backup`: base copies of a SET's Postgres, the log after them, and a restore to any instant since."""

import asyncio
import signal
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click

from backup.backups import Backups
from backup.folder import BackupFolder, LogState
from backup.limits import KEEP_COPIES
from backup.logkeeper import LogKeeper, LogStatus
from backup.programs import Source
from backup.retention import plan_prune
from cli.commands.backup_restoring import Restoring
from cli.commands.backup_restoring import restore as run_restore
from cli.commands.backup_text import prune_json, show_backups, show_pruned, show_taken
from errors import HongbaoError, Refused, Unavailable
from installation.access import Access, find
from runtime.reporting import data_option, json_option, print_report, working

_FOLDER = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the backups are.  [default: `backups` of the installation file]",
)


def folder_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `folder`: that of --folder, else the one that the installation file names."""

    @wraps(command)
    def called(*, folder: Path | None, data: Path | None, **more: Any) -> Any:
        return command(folder=folder or find(data).backups, data=data, **more)

    return _FOLDER(called)


ALL = "all"
"""In the place of a server's name: every SET and the wallet."""
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
    """Copy the whole cluster of SERVER (set-1, wallet, or all one after the other) and verify the copy.

    Exit status 1 if a copy could not be taken; with `all` the others are taken all the same.
    """
    access = find(data)
    if server != ALL:
        found = _taken(access, server, folder)
        print_report(found, as_json=as_json, show=partial(show_taken, [found]))
        return
    every = [_taken_or_why(access, one, folder) for one in access.servers()]
    print_report({"servers": every}, as_json=as_json, show=partial(show_taken, every))
    sys.exit(1 if any("code" in one for one in every) else 0)


@command.command("log")
@click.argument("server")
@folder_option
@click.option("--anew", is_flag=True, help="Set aside the log received so far; begin a new one after a gap.")
@data_option
def log(*, server: str, folder: Path, anew: bool, data: Path | None) -> None:
    """Receive the log of SERVER (or all) as it is written, until Ctrl-C; a later call continues where this one ended.

    It survives restarts of the stack. Exit status 1 if the server has removed log that was not received yet: then
    start it with --anew and take a base copy. With `all` the others are received until Ctrl-C all the same.
    """
    names = find(data).servers() if server == ALL else [server]
    click.echo(f"receiving the log of {', '.join(names)} in {folder}; Ctrl-C ends it", err=True)
    failed = asyncio.run(_receive({one: _keeper(data, one, folder) for one in names}, anew=anew))
    for error in failed:
        raise error


@command.command("list")
@click.argument("server", required=False)
@folder_option
@data_option
@json_option
def list_(*, server: str | None, folder: Path, data: Path | None, as_json: bool) -> None:
    """Show the base copies of SERVER, whether the log after each is complete, and whether it is being received.

    Without SERVER: of all. Exit status 1 if a newest copy cannot be restored up to now: the log after it has a gap, or
    is not being received. While a server is down only the folder is read.
    """
    _check_folder(folder)
    names = [server] if server not in (None, ALL) else find(data).servers()
    found = [_listed(data, one, folder) for one in names]
    report = found[0] if server not in (None, ALL) else {"servers": found}
    print_report(report, as_json=as_json, show=partial(show_backups, found))
    sys.exit(1 if any(_is_behind(one) for one in found) else 0)


@command.command("prune")
@click.argument("server", default=ALL)
@folder_option
@click.option(
    "--keep", default=KEEP_COPIES, show_default=True, type=click.IntRange(1), help="Base copies to keep, the newest."
)
@click.option("--yes", "sure", is_flag=True, help="Remove; without it this only shows what would go.")
@data_option
@json_option
def prune(*, server: str, folder: Path, keep: int, sure: bool, data: Path | None, as_json: bool) -> None:
    """Remove the base copies of SERVER (all unless given) older than the newest ones, and the log only they need.

    Each copy that stays can be restored to every instant to which it could be before. Without --yes nothing is removed.
    """
    _check_folder(folder)
    names = find(data).servers() if server == ALL else [server]
    found = []
    for name in names:
        plan = plan_prune(BackupFolder(folder.absolute(), name), keep)
        if sure:
            plan.remove()
        found.append(prune_json(name, plan, removed=sure))
    report = found[0] if server != ALL else {"servers": found}
    print_report(report, as_json=as_json, show=partial(show_pruned, found))


@command.command("restore")
@click.argument("server")
@folder_option
@click.option("--into", required=True, type=click.Path(path_type=Path), help="A new folder for the restored cluster.")
@click.option("--until", help="Instant (ISO 8601, with a zone) to restore.  [default: the end of the log]")
@click.option(
    "--with-paid",
    is_flag=True,
    help="Put back the claims that the wallet has paid and the log lacks: for a SET that is lost and will be opened.",
)
@click.option("--no-audit", is_flag=True, help="Do not audit the copy: for a machine on which nothing else runs yet.")
@data_option
@json_option
def restore(
    *,
    server: str,
    folder: Path,
    into: Path,
    until: str | None,
    with_paid: bool,
    no_audit: bool,
    data: Path | None,
    as_json: bool,
) -> None:
    """Restore SERVER as it was at an instant into another folder, and audit it there with the rest of the installation.

    The running cluster is not touched, and need not exist: installation.toml and secrets.json in the data folder are
    enough. With --with-paid, claims that the wallet has paid and the log lacks are put back first; the wallet's
    database must answer. Exit status 0 only if the audit holds, or with --no-audit: at an instant before the last
    payouts the copy is behind the wallet, and the audit names every fen of that. Where the other servers do not answer,
    the copy stands, unaudited, and the exit status is 1.
    """
    access, how = find(data), Restoring(into, _instant(until), with_paid=with_paid, no_audit=no_audit)
    with working(f"restoring {server}"):
        found = asyncio.run(run_restore(access, _backups(access, server, folder), how))
    print_report(found.as_json(), as_json=as_json, show=found.show)
    sys.exit(0 if no_audit or (found.audit is not None and found.audit.holds) else 1)


def _taken(access: Access, server: str, folder: Path) -> dict[str, Any]:
    backups = _backups(access, server, folder)
    with working(f"copying {server}"):
        base = asyncio.run(backups.take())
    return {"server": server, "path": str(base.path), "taken_at": base.taken_at.isoformat()}


def _taken_or_why(access: Access, server: str, folder: Path) -> dict[str, Any]:
    try:
        return _taken(access, server, folder)
    except HongbaoError as error:
        return {"server": server, "code": error.code, "detail": error.detail}


async def _receive(keepers: Mapping[str, LogKeeper], *, anew: bool) -> list[Refused]:
    """Receive all logs until a signal; returns what has ended one of them, reported when it happened if not alone."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)

    async def receive(server: str, keeper: LogKeeper) -> Refused | None:
        try:
            await keeper.receive(stop, anew=anew)
        except Refused as refusal:
            if len(keepers) > 1:
                click.echo(f"{server}: {refusal.detail}; the logs of the others are received further", err=True)
            return refusal
        return None

    ended = await asyncio.gather(*(receive(*one) for one in keepers.items()))
    return [one for one in ended if one is not None]


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise Refused("no_such_folder", f"there is no folder {folder}; is its disk mounted?")


def _listed(data: Path | None, server: str, folder: Path) -> dict[str, Any]:
    backups = BackupFolder(folder.absolute(), server)
    bases = [
        {"path": str(base.path), "taken_at": base.taken_at.isoformat(), "missing": backups.gap_after(base)}
        for base in backups.bases()
    ]
    log = _standing(_keeper(data, server, folder))
    return {
        "server": server,
        "bases": bases,
        "log": log.state if log else "unknown",
        "behind_bytes": log.behind_bytes if log else None,
    }


def _is_behind(one: Mapping[str, Any]) -> bool:
    bases, log = one["bases"], one["log"]
    return (log != "unknown" and log not in _GOOD) or bool(bases and bases[-1]["missing"])


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


def _source(access: Access, server: str) -> Source:
    return Source(server, access.superuser_dsn(server), access.passwords(server))


def _backups(access: Access, server: str, folder: Path) -> Backups:
    return Backups(_source(access, server), folder)


def _keeper(data: Path | None, server: str, folder: Path) -> LogKeeper:
    def notify(text: str) -> None:
        click.echo(f"{server}: {text}", err=True)

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
