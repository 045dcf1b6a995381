"""DuckDB, set up for us: bounded in memory, fetching nothing, and reading only what it is told. Imported only here.

Everything in this module blocks: callers run it in threads of their own.
"""

import contextlib
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envelope.errors import InvariantBroken, Refused

if TYPE_CHECKING:
    import duckdb

MEMORY_MB = 128
"""With Python and DuckDB's code itself an export stays under 300 MB."""
THREADS = 2
IN_ORDER = 1
"""Threads for reading rows in order: with more, what is ahead of a slow reader is kept, and fills the memory."""


def connect(
    *, memory_mb: int = MEMORY_MB, threads: int = THREADS, spill: Path | None = None
) -> "duckdb.DuckDBPyConnection":
    """Open a database of nothing, in memory; `spill` is where what does not fit may go (None: nowhere)."""
    import duckdb  # noqa: PLC0415 - a third of a second, and only who touches an archive needs it

    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "memory_limit": f"{memory_mb}MB",
            "threads": str(threads),
            "temp_directory": "" if spill is None else str(spill),
        },
    )
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")  # standard output belongs to the command
    return connection


def confine(connection: "duckdb.DuckDBPyConnection", files: Sequence[Path]) -> None:
    """Let the connection read these files and nothing else from here on, and nobody change that."""
    listed = ", ".join(quoted(path) for path in files)
    connection.execute(f"SET allowed_paths = [{listed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def quoted(text: object) -> str:
    """Return a text as a literal of SQL."""
    return "'" + str(text).replace("'", "''") + "'"


@contextlib.contextmanager
def reading(where: object) -> Iterator[None]:
    """Raise Refused `archive_corrupt` for whatever DuckDB cannot read of `where`.

    That it needs too much memory is our fault, not the archive's: InvariantBroken.
    """
    try:
        yield
    except Exception as error:
        fault = fault_of(error)
        if fault is None:
            raise
        if fault is Fault.MEMORY:
            raise InvariantBroken("archive_in_bounded_memory", f"{where}: {first_line(error)}") from error
        raise Refused("archive_corrupt", f"{where} cannot be read: {first_line(error)}") from error


class Fault(Enum):
    """What kind of error DuckDB raised."""

    MEMORY = "it needs more than it may have"
    PERMISSION = "it may not touch what it asked for"
    OTHER = "anything else"


def fault_of(error: BaseException) -> Fault | None:
    """Return the kind of an error of DuckDB's; None for any other error."""
    import duckdb  # noqa: PLC0415 - see connect

    if isinstance(error, duckdb.OutOfMemoryException):
        return Fault.MEMORY
    if isinstance(error, duckdb.PermissionException):
        return Fault.PERMISSION
    return Fault.OTHER if isinstance(error, duckdb.Error) else None


def one_select(connection: "duckdb.DuckDBPyConnection", sql: str) -> str | None:
    """Return the one SELECT that a text holds, without its semicolon; None where it is anything else."""
    import duckdb  # noqa: PLC0415 - see connect

    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        return None
    return statements[0].query.strip().rstrip(";")


def first_line(error: BaseException) -> str:
    """Return an error's first line; the others quote the statement."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def fetch(connection: "duckdb.DuckDBPyConnection", query: str, *args: object) -> list[tuple[Any, ...]]:
    """Return all rows of a query."""
    return connection.execute(query, list(args)).fetchall()
