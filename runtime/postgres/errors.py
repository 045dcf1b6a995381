"""What an error of a connection to Postgres says of the statement that it ended."""

import contextlib
from collections.abc import Iterator
from typing import Any, TypeAlias

import asyncpg

from errors import HongbaoError, Unavailable

Connection: TypeAlias = Any
"""An `asyncpg.Connection`; asyncpg has no types."""

LOST = (
    asyncpg.PostgresConnectionError, asyncpg.InterfaceError, asyncpg.InternalClientError, ConnectionError, OSError,
    TimeoutError,
)  # fmt: skip
"""Errors after which the outcome of a statement is unknown and the connection is useless.

InternalClientError comes where the server ends the connection in the moment in which a statement is sent.

Cancelled and terminated backends (57P01…57P03: admin shutdown, crash shutdown, starting up) count too, and a server
that takes no writes any more (25006: it is a standby now), or has ended a transaction in which nothing was sent for too
long (25P03): see `is_lost`.
"""

_UNIQUE_VIOLATION = "23505"
_READ_ONLY = "25006"
_IDLE_IN_TRANSACTION = "25P03"


def is_lost(error: BaseException) -> bool:
    """Say whether `error` leaves the outcome of the statement unknown."""
    if isinstance(error, LOST):
        return True
    if isinstance(error, Unavailable):
        return not error.outcome_known
    state = getattr(error, "sqlstate", None)
    return isinstance(state, str) and state.startswith(("08", "57P", "53", _READ_ONLY, _IDLE_IN_TRANSACTION))


def is_bad_row(error: BaseException) -> bool:
    """Say whether Postgres refused a statement because of what a row says (a text, a number, a rule of the schema).

    The statement wrote nothing, and will be refused again as long as it has that row: write the others without it. A
    violated unique key does not count: it says that the row is already there.
    """
    state = getattr(error, "sqlstate", None)
    return isinstance(state, str) and state.startswith(("22", "23")) and state != _UNIQUE_VIOLATION


@contextlib.contextmanager
def loss_told(what: str) -> Iterator[None]:
    """If a connection is lost in the block, raise Unavailable `database_unavailable` in place of the driver's error.

    `what`: what the block was doing, and what to do now; it ends the sentence "a database went away …".
    """
    try:
        yield
    except Exception as error:
        of_a_file = isinstance(error, OSError) and not isinstance(error, ConnectionError | TimeoutError)
        if isinstance(error, HongbaoError) or of_a_file or not is_lost(error):
            raise
        text = f"a database went away {what}: {error}"
        raise Unavailable("database_unavailable", text, outcome_known=False) from error
