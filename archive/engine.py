"""DuckDB, configured: bounded memory, no extensions from outside, and, once confined, only the files named.

Imported only here, and only when needed. Everything in this module blocks: callers run it in threads of their own.
"""

import contextlib
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archive.limits import EXPORT_MEMORY_MB, THREADS
from errors import HongbaoError, InvariantBroken, Refused

if TYPE_CHECKING:
    import duckdb


def connect(
    *,
    memory_mb: int = EXPORT_MEMORY_MB,
    threads: int = THREADS,
    spill: Path | None = None,
    reads: object = None,
) -> "duckdb.DuckDBPyConnection":
    """Open an empty in-memory database; `spill` is the folder for data that exceeds its memory (None: no folder).

    `reads`: an archive that will be read (`store.Where`), or the file system of archives in an object store.
    """
    import duckdb  # noqa: PLC0415 - a slow import that only users of an archive need

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
    if (files := _files_of(reads)) is not None:
        connection.register_filesystem(files)
    return connection


def confine(connection: "duckdb.DuckDBPyConnection", files: Sequence[object]) -> None:
    """Restrict the connection to these files, for good: no other file, network or setting."""
    listed = ", ".join(quoted(path) for path in files)
    connection.execute(f"SET allowed_paths = [{listed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def quoted(text: object) -> str:
    """Return a text as an SQL literal."""
    return "'" + str(text).replace("'", "''") + "'"


@contextlib.contextmanager
def reading(where: object) -> Iterator[None]:
    """Translate DuckDB's errors in reading `where`: Refused `archive_corrupt`; in an object store also its own errors.

    If it needs too much memory, InvariantBroken: that is not the archive's fault.
    """
    try:
        yield
    except Exception as error:
        fault = fault_of(error)
        if fault is None:
            raise
        if (of_store := read_fault(where)) is not None:
            raise of_store from error
        if fault is Fault.MEMORY:
            raise InvariantBroken("archive_in_bounded_memory", f"{where}: {first_line(error)}") from error
        raise Refused("archive_corrupt", f"{where} cannot be read: {first_line(error)}") from error


def read_fault(where: object) -> HongbaoError | None:
    """Return why the object store could not be read just now, once; None for a folder, or if it could."""
    files = _files_of(where)
    return None if files is None else files.fault("" if files is where else str(getattr(where, "path", where)))


def _files_of(where: object) -> Any:
    """Return the file system through which an archive in an object store is read."""
    return where if hasattr(where, "fault") else getattr(where, "files", None)


class Fault(Enum):
    """What kind of error DuckDB raised."""

    MEMORY = "it needs more memory than allowed"
    PERMISSION = "it accessed something outside of its files"
    OTHER = "any other error"


def fault_of(error: BaseException) -> Fault | None:
    """Return the kind of an error of DuckDB's; None for any other error."""
    import duckdb  # noqa: PLC0415 - see connect

    if isinstance(error, duckdb.OutOfMemoryException):
        return Fault.MEMORY
    if isinstance(error, duckdb.PermissionException):
        return Fault.PERMISSION
    return Fault.OTHER if isinstance(error, duckdb.Error) else None


def one_select(connection: "duckdb.DuckDBPyConnection", sql: str) -> str | None:
    """Return the SELECT that is the whole text, without its semicolon; None if the text is anything else."""
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
