"""What Postgres and DuckDB raise, as errors of ours: so that one SET's fault is told, and is nobody else's."""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from archive import engine
from envelope.errors import HongbaoError, InvariantBroken, Unavailable
from runtime import postgres


@contextmanager
def of_set(name: str) -> Iterator[None]:
    """Raise Unavailable `database_unavailable` for a Postgres that is lost, full or out of memory.

    What else a driver raises is InvariantBroken `rotation_statement`, or `archive_engine` for DuckDB: our fault, to be
    looked at. Whatever was in a transaction is rolled back by then; the same call goes on where this one stood.
    """
    try:
        yield
    except HongbaoError:
        raise
    except Exception as error:
        said = f"{name}: {type(error).__name__}: {engine.first_line(error)}"
        if postgres.is_lost(error):
            raise Unavailable("database_unavailable", said) from error
        if isinstance(error, asyncpg.PostgresError):
            raise InvariantBroken("rotation_statement", said) from error
        if engine.fault_of(error) is not None:
            raise InvariantBroken("archive_engine", said) from error
        raise
