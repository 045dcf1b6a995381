"""`hongbao backup`: base copies of a SET's Postgres, the log after them, and a restore to any instant since."""

import asyncio
import signal
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from backup.bucket.remote_backups import RemoteBackups
from backup.folder import LogState
from backup.limits import KEEP_COPIES
from backup.logkeeper import LogKeeper
from cli.commands.backup_places import Place, check, copies, keeper_of, local_backups, place_option, shown
from cli.commands.backup_places import prune as prune_of
from cli.commands.backup_places import take as take_of
from cli.commands.backup_restoring import Restored, Restoring
from cli.commands.backup_restoring import restore as run_restore
from cli.commands.backup_text import show_backups, show_pruned, show_taken
from cli.job_record import on_record
from errors import HongbaoError, Refused, Unavailable
from installation.access import Access
from installation.finding import find
from runtime import logs
from runtime.postgres import LoginRefused
from runtime.reporting import data_option, json_option, print_report, working
from schema.jobs import Job

_log = logs.get("backup")
_GOOD = (LogState.KEPT, LogState.NONE, "unknown")
"""NONE: whoever keeps copies alone has never received a log. "unknown": the server is down."""
ALL = "all"
"""In the place of a server's name: every SET and the wallet."""


@click.group("backup")
def command() -> None:
    """Back up a SET (or `wallet`) and bring it back to any instant. Works beside any traffic."""


@command.command("take")
@click.argument("server")
@place_option
@data_option
@json_option
def take(*, server: str, place: Place, data: Path | None, as_json: bool) -> None:
    """Copy the whole cluster of SERVER (set-1, wallet, or all one after the other) and verify the copy.

    Exit status 1 if a copy could not be taken; with `all` the others are taken all the same.
    """
    access = find(data)
    if server != ALL:
        found = _taken(data, server, place)
        print_report(found, as_json=as_json, show=partial(show_taken, [found]))
        return
    with on_record(data, Job.BACKUP) as run:
        every = [_taken_or_why(data, one, place) for one in access.servers()]
        run.failure = "; ".join(f"{one['server']}: {one['detail']}" for one in every if "code" in one)
    print_report({"servers": every}, as_json=as_json, show=partial(show_taken, every))
    sys.exit(1 if any("code" in one for one in every) else 0)


@command.command("log")
@click.argument("server")
@place_option
@click.option("--anew", is_flag=True, help="Set aside the log received so far; begin a new one after a gap.")
@data_option
def log(*, server: str, place: Place, anew: bool, data: Path | None) -> None:
    """Receive the log of SERVER (or all) as it is written, until Ctrl-C; a later call continues where this one ended.

    It survives restarts of the stack. Exit status 1 if the server has removed log that was not received yet: then
    start it with --anew and take a base copy. With `all` the others are received until Ctrl-C all the same.
    """
    names = find(data).servers() if server == ALL else [server]
    click.echo(f"receiving the log of {', '.join(names)} in {shown(place)}; Ctrl-C ends it", err=True)
    failed = asyncio.run(_receive({one: keeper_of(data, one, place) for one in names}, anew=anew))
    for error in failed:
        raise error


@command.command("list")
@click.argument("server", default=ALL)
@place_option
@data_option
@json_option
def list_(*, server: str, place: Place, data: Path | None, as_json: bool) -> None:
    """Show the base copies of SERVER, whether the log after each is complete, and whether it is being received.

    Without SERVER: of all. Exit status 1 if one has no copy, or the newest cannot be restored up to now: the log after
    it has a gap, or is received no longer. While a server is down only the folder is read.
    """
    check(place)
    alone = [] if server == ALL else [server]
    with on_record(data, None if alone else Job.BACKUP_CHECK) as run:
        found = [_listed(data, one, place) for one in alone or find(data).servers()]
        behind = [one["server"] for one in found if _is_behind(one)]
        run.failure = f"no copy of {', '.join(behind)} leads up to now" if behind else ""
    report = found[0] if alone else {"servers": found}
    print_report(report, as_json=as_json, show=partial(show_backups, found))
    sys.exit(1 if behind else 0)


@command.command("prune")
@click.argument("server", default=ALL)
@place_option
@click.option(
    "--keep", default=KEEP_COPIES, show_default=True, type=click.IntRange(1), help="Base copies to keep, the newest."
)
@click.option("--yes", "sure", is_flag=True, help="Remove; without it this only shows what would go.")
@data_option
@json_option
def prune(*, server: str, place: Place, keep: int, sure: bool, data: Path | None, as_json: bool) -> None:
    """Remove the base copies of SERVER (all unless given) older than the newest ones, and the log only they need.

    Each copy that stays can be restored to every instant to which it could be before. Without --yes nothing is removed.
    """
    check(place)
    names = find(data).servers() if server == ALL else [server]
    found = [prune_of(name, place, keep, sure=sure) for name in names]
    report = found[0] if server != ALL else {"servers": found}
    print_report(report, as_json=as_json, show=partial(show_pruned, found))


@command.command("restore")
@click.argument("server")
@place_option
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
    place: Place,
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
    database must answer. Exit status 0 only if all of them were, and the audit holds, or with --no-audit: at an instant
    before the last payouts the copy is behind the wallet, and the audit names every fen of that. Where the other
    servers do not answer, the copy stands, unaudited, and the exit status is 1.
    """
    access, how = find(data), Restoring(into, _instant(until), with_paid=with_paid, no_audit=no_audit)
    with working(f"restoring {server}"):
        found = asyncio.run(_restore(access, data, server, place, how))
    print_report(found.as_json(), as_json=as_json, show=found.show)
    sys.exit(0 if found.holds else 1)


async def _restore(access: Access, data: Path | None, server: str, place: Place, how: Restoring) -> Restored:
    async with local_backups(data, server, place, how.until) as backups:
        return await run_restore(access, backups, how)


def _taken(data: Path | None, server: str, place: Place) -> dict[str, Any]:
    with working(f"copying {server}"):
        return asyncio.run(take_of(data, server, place))


def _taken_or_why(data: Path | None, server: str, place: Place) -> dict[str, Any]:
    try:
        return _taken(data, server, place)
    except HongbaoError as error:
        return {"server": server, "code": error.code, "detail": error.detail}
    except Exception as error:  # noqa: BLE001 - whatever ends one copy, and be it our own fault, ends no other
        _log.exception("a copy has failed", server=server)
        return {"server": server, "code": "internal_error", "detail": f"{type(error).__name__}: {error}"}


async def _receive(keepers: Mapping[str, LogKeeper | RemoteBackups], *, anew: bool) -> list[Exception]:
    """Receive all logs until a signal; returns what has ended one of them, reported when it happened if not alone."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)

    async def receive(server: str, keeper: LogKeeper | RemoteBackups) -> Exception | None:
        try:
            await keeper.receive(stop, anew=anew)
        except Exception as error:  # noqa: BLE001 - whatever ends one log, and be it our own fault, ends no other
            if len(keepers) > 1:
                why = error.detail if isinstance(error, HongbaoError) else f"{type(error).__name__}: {error}"
                click.echo(f"{server}: {why}; the logs of the others are received further", err=True)
            return error
        return None

    ended = await asyncio.gather(*(receive(*one) for one in keepers.items()))
    return [one for one in ended if one is not None]


def _listed(data: Path | None, server: str, place: Place) -> dict[str, Any]:
    log, behind_bytes = _standing(keeper_of(data, server, place))
    return {"server": server, "bases": copies(server, place), "log": log, "behind_bytes": behind_bytes}


def _is_behind(one: Mapping[str, Any]) -> bool:
    bases, log = one["bases"], one["log"]
    return not bases or bool(bases[-1]["missing"]) or log not in _GOOD


def _standing(keeper: LogKeeper | RemoteBackups) -> tuple[str, int | None]:
    """Return the state of the log, and what is behind, in bytes.

    "unknown" if there is no server to compare it with, "login_refused" if it does not let us in: nobody knows then
    whether the log is received, until an operator has mended that.
    """
    try:
        status = asyncio.run(keeper.status())
    except LoginRefused:
        return "login_refused", None
    except Unavailable:
        return "unknown", None
    except Refused as refusal:
        if refusal.code != "not_installed":
            raise
        return "unknown", None
    return status.state, status.behind_bytes


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
