"""The names of an archive's objects, below the prefix of its place.

    claim/day=2026-11-21/xx=07/9f3ac01d22e4b57a.parquet      also envelope/…, guest/…
    manifest/2026-11-21/db_07/9f3ac01d22e4b57a.json

The last part is the manifest's digest, its first GENERATION hex digits. `day=` and `xx=` are partitions as Hive writes
them: DuckDB, Spark and Trino make columns of them, and read only the objects that a condition on them means.
"""

import re
from datetime import date
from typing import Final, NamedTuple

from archive.tables import TABLES, Table
from sharding.slots import database_name

GENERATION: Final = 16
"""Hex digits of a digest in a name: 64 bits, of a handful of archives of one day and database."""
MANIFESTS: Final = "manifest"
_MANIFEST: Final = re.compile(rf"{MANIFESTS}/(\d{{4}}-\d\d-\d\d)/db_(\d\d)/([0-9a-f]{{{GENERATION}}})\.json")
_TABLE: Final = {table.file: table.kind.value for table in TABLES}
PLACES: Final = (MANIFESTS, *_TABLE.values())
"""What all objects of an archive are below; beside it other things may have the same prefix."""


class Generation(NamedTuple):
    """One writing of the archive of a day and database."""

    day: date
    xx: int
    digest: str
    """The first GENERATION hex digits of the manifest's digest."""


def manifests_of(xx: int, day: date) -> str:
    """Name the place of all manifests of one day and database."""
    return f"{MANIFESTS}/{day.isoformat()}/{database_name(xx)}"


def manifest_name(xx: int, day: date, digest: str) -> str:
    """Name a manifest's object."""
    return f"{manifests_of(xx, day)}/{digest[:GENERATION]}.json"


def file_name(file: str, xx: int, day: date, digest: str) -> str:
    """Name the object of one of an archive's files, `claim.parquet`."""
    return f"{_partition(_TABLE[file], xx, day)}/{digest[:GENERATION]}.parquet"


def partitions_of(xx: int, day: date) -> list[str]:
    """Name the places of all files of one day and database."""
    return [_partition(_kind(table), xx, day) for table in TABLES]


def generation_of(name: str) -> Generation | None:
    """Return what a manifest's object is of; None for another object."""
    found = _MANIFEST.fullmatch(name)
    if found is None:
        return None
    try:
        return Generation(date.fromisoformat(found[1]), int(found[2]), found[3])
    except ValueError:
        return None


def generation_in(name: str) -> str:
    """Return the digits of the digest of the archive that an object belongs to."""
    return name.rpartition("/")[2].partition(".")[0]


def _kind(table: Table) -> str:
    return table.kind.value


def _partition(kind: str, xx: int, day: date) -> str:
    return f"{kind}/day={day.isoformat()}/xx={xx:02d}"
