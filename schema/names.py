"""The one place that builds identifiers, from digits only: no name in DDL ever comes from outside.

`db_07.claim_3_21` is the leaf of slot 073 on the 21st; the name comes round every month, the bound of the partition
does not. `claim_20261121` is the partition of the whole day, which holds the leaves.
"""

from datetime import date
from enum import StrEnum

from envelope.errors import Refused
from sharding.slots import database_of, table_of


class Kind(StrEnum):
    """The partitioned tables."""

    ENVELOPE = "envelope"
    CLAIM = "claim"
    GUEST = "guest"


def database(xx: int) -> str:
    """Name the Postgres schema of database `xx`: `db_07`."""
    if not 0 <= xx <= 99:  # noqa: PLR2004 - two digits
        raise Refused("unknown_database", f"databases are numbered 0 to 99, not {xx}")
    return f"db_{xx:02d}"


def read_database(text: str) -> int:
    """Return xx of `db_07`, `07` or `7`; raises Refused `unknown_database`."""
    digits = text.removeprefix("db_")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 2:  # noqa: PLR2004 - two digits
        raise Refused("unknown_database", f"{text[:20]!r} is no database; they are named db_00 to db_99")
    return int(digits)


def day_table(kind: Kind, day: date) -> str:
    """Name the partition of one business date: `claim_20261121`."""
    return f"{Kind(kind).value}_{day:%Y%m%d}"


def leaf(kind: Kind, slot: int, day: date) -> str:
    """Name the leaf of one slot and day: `db_07.claim_3_21`; guests have one per database: `db_07.guest_21`."""
    schema = database(database_of(slot))
    if kind is Kind.GUEST:
        return f"{schema}.guest_{day.day:02d}"
    return f"{schema}.{Kind(kind).value}_{table_of(slot)}_{day.day:02d}"


def cold(xx: int, day: date) -> str:
    """Name the schema in which the leaves of a detached day and database stand: `cold_07_20261121`."""
    return f"cold_{database(xx).removeprefix('db_')}_{day:%Y%m%d}"
