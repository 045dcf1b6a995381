"""How commands reach the archive: also without a running stack, for it is files and a key."""

from collections.abc import Collection
from datetime import date
from pathlib import Path

from archive import place
from archive.place import Archive
from archive.register import read_register
from cluster.access import Access, find
from cluster.machine import datafolder
from cluster.machine.account import server_account
from cluster.machine.keys import Secrets
from cluster.pg import roles
from envelope.errors import Refused
from runtime import postgres
from sharding.slots import database_name


def archive_of(data: Path | None) -> Archive:
    """Return the archive of the data folder, running or not; raises Refused `no_key` where there is no key yet."""
    access = running(data)
    if access is not None:
        return access.archive()
    folder = datafolder.choose(data, server_account())
    return Archive(folder.archive, Secrets.load(folder.secrets).key("ARCHIVE_KEY").encode())


def running(data: Path | None) -> Access | None:
    """Return the stack that runs on the data folder; None when none does."""
    try:
        return find(data)
    except Refused as refused:
        if refused.code != "not_up":
            raise
        return None


def read_day(text: str) -> date:
    """Return the date of `2026-11-21`; raises Refused `malformed_day`."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise Refused("malformed_day", f"{text!r} is no date like 2026-11-21") from None


def chosen(
    archive: Archive, day: date | None, xx: int | None, known: Collection[tuple[date, int]] = ()
) -> list[tuple[date, int]]:
    """Return the archives that are meant: those that lie there and those that are `known` to be.

    Raises Refused `archive_missing` where one was named and is neither.
    """
    found = sorted({*place.archived(archive.folder), *known})
    meant = [one for one in found if (day is None or one[0] == day) and (xx is None or one[1] == xx)]
    if not meant and (day is not None or xx is not None):
        what = " and ".join([*([str(day)] if day else []), *([database_name(xx)] if xx is not None else [])])
        raise Refused("archive_missing", f"there is no archive of {what} in {archive.folder}")
    return meant


async def registered(access: Access) -> set[tuple[date, int]]:
    """Return the archives that the registers of all SETs name, there or not; raises Unavailable."""
    found = set()
    for one in access.topology().sets:
        connection = await postgres.connect(access.set_dsn(one.name, roles.OWNER))
        try:
            register = await read_register(connection)
        finally:
            await connection.close(timeout=2.0)
        found |= {key for key, standing in register.items() if standing.manifest_sha256 is not None}
    return found
