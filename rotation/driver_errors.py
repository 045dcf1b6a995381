"""Translates drivers' errors (asyncpg, DuckDB) into HongbaoErrors: a round notes them and goes on with the next SET."""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from archive import engine
from errors import HongbaoError, InvariantBroken, Unavailable
from runtime import postgres
from runtime.postgres.locks import is_locked


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Raise Unavailable `database_unavailable` for a Postgres of SET `name` that is lost, full or out of memory.

    A lock that was not to be had in time is Unavailable `rotation_waits`: most steps try again before that, and name
    who holds it. Any other error of a driver is a fault of ours and becomes InvariantBroken: `rotation_statement` for
    Postgres, `archive_engine` for DuckDB. A transaction that was open is rolled back; the same call may be repeated.
    """
    try:
        yield
    except HongbaoError:
        raise
    except Exception as error:
        text = f"{name}: {type(error).__name__}: {engine.first_line(error)}"
        if postgres.is_lost(error):
            raise Unavailable("database_unavailable", text) from error
        if is_locked(error):
            raise Unavailable("rotation_waits", f"{text}; what is done stays, run it again") from error
        if isinstance(error, asyncpg.PostgresError):
            raise InvariantBroken("rotation_statement", text) from error
        if engine.fault_of(error) is not None:
            raise InvariantBroken("archive_engine", text) from error
        raise
