"""How commands open the archive: files and a key are enough, whether or not anything runs."""

from collections.abc import Collection
from datetime import date
from pathlib import Path

from archive import store
from archive.known import Known, all_known
from archive.place import Archive
from archive.register import read_register
from errors import Refused
from installation import data_folder
from installation.access import Access
from installation.finding import find_current, secrets_of
from runtime import postgres
from schema import roles
from sharding.slots import database_name


def open_archive(data: Path | None) -> Archive:
    """Return the archive of the data folder; raises Refused `no_key` if there is no key yet."""
    access = find_installed(data)
    if access is not None:
        return access.archive()
    folder = data_folder.locate(data)
    return Archive(store.root_of(folder.archive_place), secrets_of(data).key("ARCHIVE_KEY").encode())


def find_installed(data: Path | None) -> Access | None:
    """Return the installation of the data folder, None if there is none."""
    try:
        return find_current(data)
    except Refused as refused:
        if refused.code != "not_installed":
            raise
        return None


def read_day(text: str) -> date:
    """Return the business date written as `2026-11-21`; raises Refused `malformed_day`."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise Refused("malformed_day", f"{text!r} is no date like 2026-11-21") from None


def select_archives(
    archive: Archive, day: date | None, xx: int | None, known: Collection[tuple[date, int]] = ()
) -> list[tuple[date, int]]:
    """Return (day, database) of the archives in the folder and of those `known` to exist, by `day` and `xx` if given.

    Raises Refused `archive_missing` if `day` or `xx` is given and nothing fits.
    """
    every = sorted({*store.archived(archive.folder), *known})
    selected = [one for one in every if (day is None or one[0] == day) and (xx is None or one[1] == xx)]
    if not selected and (day is not None or xx is not None):
        what = " and ".join([*([str(day)] if day else []), *([database_name(xx)] if xx is not None else [])])
        raise Refused("archive_missing", f"there is no archive of {what} in {archive.folder}")
    return selected


async def known_archives(access: Access) -> dict[tuple[date, int], Known]:
    """Return all digests that the operation logs of all SETs have had for each (day, database); raises Unavailable."""
    found: dict[tuple[date, int], Known] = {}
    for one in access.topology().sets:
        async with postgres.asked(access.set_dsn(one.name, roles.OWNER)) as connection:
            logged = await all_known(connection)
        found |= {key: found.get(key, Known()) | Known(digests) for key, digests in logged.items()}
    return found


async def registered_archives(access: Access) -> dict[tuple[date, int], str]:
    """Return the manifest's digest of each (day, database) in the registers of all SETs, whether or not it exists.

    Raises Unavailable if a SET's Postgres is away.
    """
    return {key: digests[-1] for key, digests in (await named_archives(access)).items()}


async def named_archives(access: Access) -> dict[tuple[date, int], list[str]]:
    """Return the same of every SET, in their order: one from which a database has moved may name an older manifest."""
    found: dict[tuple[date, int], list[str]] = {}
    for one in access.topology().sets:
        async with postgres.asked(access.set_dsn(one.name, roles.OWNER)) as connection:
            register = await read_register(connection)
        for key, entry in register.items():
            if entry.manifest_sha256 is not None:
                found.setdefault(key, []).append(entry.manifest_sha256)
    return found
