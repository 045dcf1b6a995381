"""`hongbao archive list|verify|restore`: what lies in the archive, whether it is true, a day put back to look at."""

import asyncio
import sys
from collections.abc import Collection
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table

from archive import manifest, place
from archive.place import Archive
from archive.register import Standing, read_register
from archive.restore import remove, restore
from archive.verify import Verified, reread, verify_database
from cluster.access import Access
from cluster.archives import archive_of, chosen, read_day, registered, running
from cluster.pg import roles
from cluster.reporting import data_option, json_option, report
from envelope.errors import HongbaoError, Refused
from envelope.money import yuan
from runtime import postgres
from schema.names import read_database
from sharding.slots import database_name

Result = dict[str, Any]

_day = click.option("--day", help="Only this business date (2026-11-21).")
_database = click.option("--database", help="Only this database (db_07).")


@click.group("archive")
def command() -> None:
    """Look at what is stored cold: list it, verify it, put a date back beside the hot one."""


@command.command("list")
@_day
@_database
@data_option
@json_option
def list_(*, day: str | None, database: str | None, data: Path | None, as_json: bool) -> None:
    """Show the archives with what their manifests say. Exit status 1 where one is not signed by our key."""
    archive = archive_of(data)
    found = [_listed(archive, *one) for one in _meant(archive, day, database)]
    report({"archives": found}, as_json=as_json, show=lambda console: _show_list(found, console))
    sys.exit(0 if all(one["code"] is None for one in found) else 1)


@command.command("verify")
@_day
@_database
@data_option
@json_option
def verify(*, day: str | None, database: str | None, data: Path | None, as_json: bool) -> None:
    """Prove that archives are what was exported, and that those the registers name are there.

    While the tables of a date still stand its archive is read back into Postgres and compared row by row. Of a date
    that is dropped, or when nothing runs, signature, files and the digests of all rows are checked anew. Exit status
    1 where one does not hold.
    """
    archive = archive_of(data)
    found = asyncio.run(_verify(archive, day, database, running(data)))
    holds = all(one["code"] is None for one in found)
    report({"holds": holds, "archives": found}, as_json=as_json, show=lambda console: _show_verified(found, console))
    sys.exit(0 if holds else 1)


@command.command("restore")
@click.argument("day")
@click.argument("database")
@click.option("--remove", "away", is_flag=True, help="Take a restored date away again.")
@data_option
@json_option
def restore_(*, day: str, database: str, away: bool, data: Path | None, as_json: bool) -> None:
    """Put DAY of DATABASE back, as tables of its own beside the hot ones, for an investigation.

    They stand in the schema restored_07_20261121 of the SET that holds the database; the system does not look there and
    its roles may only read them. Needs a running stack.
    """
    told = asyncio.run(_restore(archive_of(data), read_database(database), read_day(day), running(data), away=away))
    report(told, as_json=as_json, show=lambda console: console.print(told["sentence"]))


def _meant(
    archive: Archive, day: str | None, database: str | None, known: Collection[tuple[date, int]] = ()
) -> list[tuple[date, int]]:
    return chosen(archive, read_day(day) if day else None, read_database(database) if database else None, known)


def _listed(archive: Archive, day: date, xx: int) -> Result:
    row: Result = {"day": str(day), "database": database_name(xx), "code": None, "detail": None}
    try:
        found = manifest.read(place.folder_of(archive.folder, xx=xx, day=day), archive.key, xx=xx, day=day)
    except Refused as refused:
        return row | {"code": refused.code, "detail": refused.detail}
    return row | {
        "envelopes": found.envelopes,
        "claims": found.claims,
        "guests": found.guests,
        "paid_in_fen": found.paid_in_fen,
        "claimed_fen": found.claimed_fen,
        "refunded_fen": found.refunded_fen,
        "bytes": sum(file.size for file in found.files.values()),
        "digest": found.digest,
    }


async def _verify(archive: Archive, day: str | None, database: str | None, access: Access | None) -> list[Result]:
    # Asked of the registers, too: a folder that is not mounted has nothing in it that does not hold.
    meant = _meant(archive, day, database, await registered(access) if access else ())
    with _progress() as bar:
        task = bar.add_task("verifying", total=len(meant))
        found = []
        for its, xx in meant:
            bar.update(task, description=f"verifying {its} {database_name(xx)}")
            found.append(await _verified(archive, xx, its, access, partial(_tell, bar, task, its, xx)))
            bar.advance(task)
    return found


async def _verified(archive: Archive, xx: int, day: date, access: Access | None, progress: Any) -> Result:
    row: Result = {"day": str(day), "database": database_name(xx), "code": None, "detail": None, "how": "reread"}
    try:
        standing, connection = await _ask(access, xx, day)
        try:
            verified: Verified
            if connection is not None and standing is not None and not standing.dropped:
                row["how"] = "compared"
                verified = await verify_database(
                    connection, archive.folder, archive.key, xx=xx, day=day, progress=progress
                )
            else:
                digest = None if standing is None else standing.manifest_sha256
                verified = await reread(archive.folder, archive.key, xx=xx, day=day, digest=digest, progress=progress)
        finally:
            if connection is not None:
                await connection.close(timeout=2.0)
    except HongbaoError as error:
        return row | {"code": error.code, "detail": error.detail}
    return row | {"rows": verified.rows, "digest": verified.manifest.digest}


async def _ask(access: Access | None, xx: int, day: date) -> tuple[Standing | None, Any]:
    """Return what the register says of a date, and the owner's connection to its SET; None when nothing runs."""
    if access is None:
        return None, None
    connection = await postgres.connect(_owner(access, xx, day))
    try:
        register = await read_register(connection, [day])
    except BaseException:
        await connection.close(timeout=2.0)
        raise
    return register.get((day, xx)), connection


def _owner(access: Access, xx: int, day: date) -> str:
    topology = access.topology()
    held = next((one.name for one in topology.sets if xx in topology.databases_of(one.name, day)), None)
    if held is None:
        raise Refused("unknown_database", f"no SET here holds {database_name(xx)}")
    return access.set_dsn(held, roles.OWNER)


async def _restore(archive: Archive, xx: int, day: date, access: Access | None, *, away: bool) -> Result:
    if access is None:
        raise Refused("not_up", "a date is restored into a running SET; start it with ./run")
    connection = await postgres.connect(_owner(access, xx, day))
    try:
        if away:
            schema = await remove(connection, xx=xx, day=day)
            return {"schema": schema, "removed": True, "sentence": f"{schema} is gone"}
        with _progress() as bar:
            task = bar.add_task("restoring", total=None)
            progress = partial(_tell, bar, task, day, xx)
            done = await restore(connection, archive.folder, archive.key, xx=xx, day=day, progress=progress)
    finally:
        await connection.close(timeout=2.0)
    rows = {name.partition(".")[0]: file.rows for name, file in done.manifest.files.items()}
    sentence = f"{done.schema} has {rows['envelope']} envelopes and {rows['claim']} claims; take it away with --remove"
    return {"schema": done.schema, "removed": False, "rows": rows, "sentence": sentence}


def _progress() -> Progress:
    return Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), console=Console(stderr=True))


def _tell(bar: Progress, task: TaskID, day: date, xx: int, kind: str, _size: int) -> None:
    bar.update(task, description=f"{day} {database_name(xx)} {kind}")


def _show_list(found: list[Result], console: Console) -> None:
    table = Table("day", "database", "envelopes", "claims", "yuan paid in", "MB", "signed")
    for one in found:
        if one["code"] is not None:
            table.add_row(one["day"], one["database"], "", "", "", "", f"[red]{one['code']}[/red]")
            continue
        size = f"{one['bytes'] / 1e6:.1f}"
        sums = str(one["envelopes"]), str(one["claims"]), yuan(one["paid_in_fen"])
        table.add_row(one["day"], one["database"], *sums, size, "[green]yes[/green]")
    console.print(table)


def _show_verified(found: list[Result], console: Console) -> None:
    table = Table("day", "database", "how", "rows", "result")
    for one in found:
        holds = one["code"] is None
        result = "[green]holds[/green]" if holds else f"[red]{one['code']}[/red] {one['detail']}"
        table.add_row(one["day"], one["database"], one["how"], str(one.get("rows", "")), result)
    console.print(table)
