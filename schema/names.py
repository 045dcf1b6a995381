"""Names of schemas and tables, built from table kinds and digits only: no identifier comes from input.

`claim_20261121` is the partition of a business date; under it `db_07.claim_3_21` is the leaf of slot 073 on the 21st. A
leaf's name recurs every month; what it may hold is fixed by the bounds of its partition.
"""

from datetime import date
from enum import StrEnum

from errors import Refused
from sharding.slots import database_name, database_of, table_of


class TableKind(StrEnum):
    """The partitioned tables of a SET."""

    ENVELOPE = "envelope"
    CLAIM = "claim"
    GUEST = "guest"


def database(xx: int) -> str:
    """Name the Postgres schema of database `xx`: `db_07`."""
    if not 0 <= xx <= 99:  # noqa: PLR2004 - two digits
        raise Refused("unknown_database", f"databases are numbered 0 to 99, not {xx}")
    return database_name(xx)


def read_database(text: str) -> int:
    """Return xx of `db_07`, `07` or `7`; raises Refused `unknown_database`."""
    digits = text.removeprefix("db_")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 2:  # noqa: PLR2004 - two digits
        raise Refused("unknown_database", f"{text[:20]!r} is no database; they are named db_00 to db_99")
    return int(digits)


def day_table(kind: TableKind, day: date) -> str:
    """Name the partition of one business date: `claim_20261121`."""
    return f"{TableKind(kind).value}_{day:%Y%m%d}"


def leaf(kind: TableKind, slot: int, day: date) -> str:
    """Name the leaf of one slot and date: `db_07.claim_3_21`; of guests, one per database: `db_07.guest_21`."""
    schema = database(database_of(slot))
    if kind is TableKind.GUEST:
        return f"{schema}.guest_{day.day:02d}"
    return f"{schema}.{TableKind(kind).value}_{table_of(slot)}_{day.day:02d}"


def cold(xx: int, day: date) -> str:
    """Name the schema to which the leaves of a detached date and database are moved: `cold_07_20261121`."""
    return f"cold_{database(xx).removeprefix('db_')}_{day:%Y%m%d}"
