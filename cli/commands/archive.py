"""`hongbao archive list|verify|restore|copy`: what is archived, whether it is intact, a day restored to look at."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table

from archive import store
from archive.copying import copy_archive
from archive.known import Known
from archive.place import Archive
from archive.register import RegisterEntry, read_register
from archive.restore import remove, restore
from archive.verify import Verified, reread, verify_database
from cli.archives import (
    find_installed,
    known_archives,
    named_archives,
    open_archive,
    read_day,
    registered_archives,
    select_archives,
)
from cli.job_record import on_record
from envelope.money import yuan
from errors import HongbaoError, Refused, Unavailable
from installation.access import Access
from installation.finding import find
from runtime import postgres
from runtime.postgres import Connection
from runtime.reporting import data_option, json_option, print_report
from runtime.tables import print_table
from runtime.wording import counted
from schema import roles
from schema.jobs import Job
from schema.names import read_database
from sharding.slots import database_name

SHOWN = 20
"""Archives that no register names, of which each is told."""
AGAIN_S = 180.0
"""How long archives are looked at again that the rotation works on: it has each for seconds, or some minutes."""
AGAIN_PAUSE_S = 5.0
BUSY = "archive_busy"
AGAIN = (BUSY, "day_not_here")
"""Codes that say that a day is on its way: another process has its archive, or its tables have just been dropped."""

Result = dict[str, Any]

_day = click.option("--day", help="Only this business date (2026-11-21).")
_database = click.option("--database", help="Only this database (db_07).")


@click.group("archive")
def command() -> None:
    """List the archived days, verify them, restore one as separate tables, copy all to another place."""


@command.command("list")
@_day
@_database
@data_option
@json_option
def list_(*, day: str | None, database: str | None, data: Path | None, as_json: bool) -> None:
    """Show the archives and their manifests.

    Exit status 1 if one is not signed by our key, or if none is found and nothing is installed in the data folder.
    """
    archive = open_archive(data)
    found = [_listed(archive, *one) for one in _selected(archive, day, database)]
    unsure = "" if found or find_installed(data) else _unsure(archive)
    print_report({"archives": found}, as_json=as_json, show=lambda console: _show_list(found, unsure, console))
    sys.exit(0 if not unsure and all(one["code"] is None for one in found) else 1)


@command.command("verify")
@_day
@_database
@data_option
@json_option
def verify(*, day: str | None, database: str | None, data: Path | None, as_json: bool) -> None:
    """Verify that archives are what was exported, and that all archives in the registers exist.

    While the tables of a date exist, its archive is read back into Postgres and compared row by row. For a date that is
    dropped, and while the SETs' Postgres servers are down, signature, files and the digests of all rows are checked
    instead. Exit status 1 if one does not verify, or if no archive is found and no register could be read. One that
    another process works on is tried again at the end, for some minutes; what is busy even then is told as not looked
    at, and does not count as wrong.
    """
    archive, installed = open_archive(data), find_installed(data)
    with on_record(data, Job.ARCHIVE_CHECK if installed and not (day or database) else None) as run:
        found, alone = asyncio.run(_verify(archive, day, database, installed))
        wrong = "; ".join(
            f"{one['day']} {one['database']}: {one['code']}" for one in found if one["code"] not in (None, BUSY)
        )
        run.failure = wrong or alone
    unsure = _unsure(archive) if not found and (alone or installed is None) else ""
    holds = not wrong and not unsure
    print_report(
        {"holds": holds, "archives": found},
        as_json=as_json,
        show=lambda console: _show_verified(found, console, unsure),
    )
    sys.exit(0 if holds else 1)


@command.command("restore")
@click.argument("day")
@click.argument("database")
@click.option("--remove", "removing", is_flag=True, help="Remove a restored date.")
@data_option
@json_option
def restore_(*, day: str, database: str, removing: bool, data: Path | None, as_json: bool) -> None:
    """Restore DAY of DATABASE as separate tables, for an investigation; the hot tables are not touched.

    They are in the schema restored_07_20261121 of the SET that holds the database. The system does not use that
    schema, and its roles may only read it. Needs that SET's Postgres.
    """
    outcome = asyncio.run(
        _restore(open_archive(data), read_database(database), read_day(day), find(data), removing=removing)
    )
    print_report(outcome, as_json=as_json, show=outcome["sentence"])


@command.command("copy")
@click.argument("place", metavar="PLACE")
@_day
@_database
@data_option
@json_option
def copy(*, place: str, day: str | None, database: str | None, data: Path | None, as_json: bool) -> None:
    """Copy archives to PLACE, a folder or s3://bucket/prefix, each checked whole before and after.

    For moving to another place: copy while days are still rotated into the old one, stop the rotation, copy again (what
    is there already is only checked), and name PLACE as `archive` in the installation file. Exit status 1 if one could
    not be copied (the others are copied all the same), or if there is none and no register could be read.
    """
    archive = open_archive(data)
    target = Archive(store.root_of(place), archive.key)
    access = find_installed(data)
    known = asyncio.run(registered_archives(access)) if access else {}
    before = asyncio.run(known_archives(access)) if access else {}
    found = []
    with _progress() as bar:
        selected = _selected(archive, day, database, known)
        task = bar.add_task("copying", total=len(selected))
        for its_day, xx in selected:
            bar.update(task, description=f"copying {its_day} {database_name(xx)}")
            found.append(_copied(archive, target, xx, its_day, known.get((its_day, xx)), before.get((its_day, xx))))
            bar.advance(task)
    unsure = "" if found or access else _unsure(archive)
    copied = not unsure and all(one["code"] is None for one in found)
    print_report(
        {"copied": copied, "place": place, "archives": found}, as_json=as_json,
        show=lambda console: _show_copied(found, place, unsure, console),
    )  # fmt: skip
    sys.exit(0 if copied else 1)


def _copied(archive: Archive, target: Archive, xx: int, day: date, digest: str | None, known: Known | None) -> Result:
    row: Result = {"day": str(day), "database": database_name(xx), "code": None, "detail": None}
    try:
        return row | {"new": copy_archive(archive, target, xx=xx, day=day, digest=digest, known=known)}
    except HongbaoError as error:
        return row | {"code": error.code, "detail": error.detail}


def _unsure(archive: Archive) -> str:
    """Say that nothing was found where no register could say whether something has to be there."""
    missing = isinstance(archive.folder, Path) and not archive.folder.is_dir()
    what = "there is no such folder" if missing else "no archive is there"
    return f"{archive.folder}: {what}, and no register was asked: is it mounted, and is this the right data folder?"


def _show_copied(found: list[Result], place: str, unsure: str, console: Console) -> None:
    if unsure:
        console.print(f"[red]{escape(unsure)}[/red]", highlight=False)
    for one in found:
        if one["code"] is not None:
            console.print(f"[red]{one['day']} {one['database']}: {one['code']}[/red] {one['detail']}", highlight=False)
    new = sum(1 for one in found if one.get("new"))
    there = sum(1 for one in found if one.get("new") is False)
    console.print(f"{counted(new, 'archive')} copied to {place}; {there} were there already", highlight=False)


def _selected(
    archive: Archive, day: str | None, database: str | None, known: Collection[tuple[date, int]] = ()
) -> list[tuple[date, int]]:
    return select_archives(
        archive, read_day(day) if day else None, read_database(database) if database else None, known
    )


def _listed(archive: Archive, day: date, xx: int) -> Result:
    row: Result = {"day": str(day), "database": database_name(xx), "code": None, "detail": None}
    try:
        found = store.opened(archive, xx=xx, day=day).manifest
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


async def _verify(
    archive: Archive, day: str | None, database: str | None, access: Access | None
) -> tuple[list[Result], str]:
    """Return what was found, and why archives were not compared with the registers, "" if they were."""
    # The registers are asked, too: an archive folder that is not mounted looks empty, not wrong.
    named: dict[tuple[date, int], list[str]] = {}
    alone = ""
    try:
        named = await named_archives(access) if access else {}
    except Unavailable as unavailable:
        alone = f"only the files are verified, not compared with the registers: {unavailable.detail}"
        click.echo(alone, err=True)
        access = None
    if access is not None and not (day or database):
        _tell_unnamed(store.unnamed(archive.folder, named))
    selected = _selected(archive, day, database, named)
    with _progress() as bar:
        task = bar.add_task("verifying", total=len(selected))
        found: dict[tuple[date, int], Result] = {}

        async def look(its_day: date, xx: int) -> None:
            bar.update(task, description=f"verifying {its_day} {database_name(xx)}")
            progress = partial(_show_progress, bar, task, its_day, xx)
            found[its_day, xx] = await _verified(archive, xx, its_day, access, progress)

        for one in selected:
            await look(*one)
            bar.advance(task)
        await _again(found, look)
    return list(found.values()), alone


async def _again(found: Mapping[tuple[date, int], Result], look: Callable[[date, int], Awaitable[None]]) -> None:
    """Look again, for AGAIN_S, at what was on its way: a job that fails because the rotation works is a false alarm."""
    end = time.monotonic() + AGAIN_S
    while waiting := [one for one, row in found.items() if row["code"] in AGAIN]:
        for one in waiting:
            await look(*one)
        if time.monotonic() >= end:
            break
        if any(row["code"] in AGAIN for row in found.values()):
            await asyncio.sleep(AGAIN_PAUSE_S)


def _tell_unnamed(found: list[str]) -> None:
    """Tell on standard error, which is read by people: it is no fault of an archive that others stand beside it."""
    for where in found[:SHOWN]:
        click.echo(
            f"{where}: no register here names it; a kill or a restore has left it, or it is another installation's. It "
            "is not removed, and has names, also of users who were forgotten",
            err=True,
        )
    if len(found) > SHOWN:
        click.echo(f"and {counted(len(found) - SHOWN, 'archive')} more that no register here names", err=True)


async def _verified(archive: Archive, xx: int, day: date, access: Access | None, progress: Any) -> Result:
    row: Result = {"day": str(day), "database": database_name(xx), "code": None, "detail": None, "how": "reread"}
    try:
        if access is None:
            verified = await reread(archive.folder, archive.key, xx=xx, day=day, digest=None, progress=progress)
        else:
            async with postgres.connected(_owner(access, xx, day)) as connection:
                entry = (await read_register(connection, [day])).get((day, xx))
                row["how"] = "reread" if entry is None or entry.dropped else "compared"
                verified = await _verified_by_register(connection, entry, archive, xx, day, progress)
    except HongbaoError as error:
        return row | {"code": error.code, "detail": error.detail}
    return row | {"rows": verified.rows, "digest": verified.manifest.digest}


async def _verified_by_register(
    connection: Connection, entry: RegisterEntry | None, archive: Archive, xx: int, day: date, progress: Any
) -> Verified:
    """Compare with the tables while they exist, else check the files against the digest in the register."""
    if entry is not None and not entry.dropped:
        return await verify_database(connection, archive.folder, archive.key, xx=xx, day=day, progress=progress)
    digest = None if entry is None else entry.manifest_sha256
    return await reread(archive.folder, archive.key, xx=xx, day=day, digest=digest, progress=progress)


def _owner(access: Access, xx: int, day: date) -> str:
    """Return the owner's DSN of the SET that holds the database on that day."""
    topology = access.topology()
    held = next((one.name for one in topology.sets if xx in topology.databases_of(one.name, day)), None)
    if held is None:
        raise Refused("unknown_database", f"no SET here holds {database_name(xx)}")
    return access.set_dsn(held, roles.OWNER)


async def _restore(archive: Archive, xx: int, day: date, access: Access, *, removing: bool) -> Result:
    async with postgres.connected(_owner(access, xx, day)) as connection:
        if removing:
            schema = await remove(connection, xx=xx, day=day)
            return {"schema": schema, "removed": True, "sentence": f"{schema} is removed"}
        with _progress() as bar:
            task = bar.add_task("restoring", total=None)
            progress = partial(_show_progress, bar, task, day, xx)
            done = await restore(connection, archive.folder, archive.key, xx=xx, day=day, progress=progress)
    rows = {name.partition(".")[0]: file.rows for name, file in done.manifest.files.items()}
    sentence = (
        f"{done.schema} has {counted(rows['envelope'], 'envelope')} and {counted(rows['claim'], 'claim')}; "
        "--remove removes it"
    )
    return {"schema": done.schema, "removed": False, "rows": rows, "sentence": sentence}


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _show_progress(bar: Progress, task: TaskID, day: date, xx: int, kind: str, _size: int) -> None:
    bar.update(task, description=f"{day} {database_name(xx)} {kind}")


def _show_list(found: list[Result], unsure: str, console: Console) -> None:
    if not found:
        nothing = "nothing is archived yet; ./run rotate plan says which day goes next"
        console.print(f"[red]{escape(unsure)}[/red]" if unsure else nothing, highlight=False)
        return
    table = Table("day", "database", "envelopes", "claims", "yuan paid in", "MB", "signed")
    for one in found:
        if one["code"] is not None:
            table.add_row(one["day"], one["database"], "", "", "", "", f"[red]{one['code']}[/red]")
            continue
        size = f"{one['bytes'] / 1e6:.1f}"
        sums = str(one["envelopes"]), str(one["claims"]), yuan(one["paid_in_fen"])
        table.add_row(one["day"], one["database"], *sums, size, "[green]yes[/green]")
    print_table(console, table)


def _show_verified(found: list[Result], console: Console, unsure: str = "") -> None:
    if not found:
        nothing = "nothing is archived yet, and no register names an archive"
        console.print(f"[red]{escape(unsure)}[/red]" if unsure else nothing, highlight=False)
        return
    table = Table("day", "database", "how", "rows", "result")
    for one in found:
        holds = one["code"] is None
        result = "[green]holds[/green]" if holds else f"[red]{one['code']}[/red] {one['detail']}"
        if one["code"] == BUSY:
            result = f"[yellow]not looked at[/yellow]: {one['detail']}"
        table.add_row(one["day"], one["database"], one["how"], str(one.get("rows", "")), result)
    print_table(console, table)
