"""Postgres: a connection is opened, noticed as lost, and remade; a commit is never cancelled.

What lives here: `connection` opens and closes one, by SCRAM alone (`scram_only`), at the first host of several that
fits (`race`), and notices a host that is gone (`keepalive`); `session` is one that is remade after a loss; `errors`
says what a loss leaves unknown, `pauses` when to try again, `locks` how to wait for tables; `arrays` writes a batch as
texts. Callers take the names below from here, the others from their modules.
"""

from runtime.postgres.connection import ASKED_S, CONNECT_S, LoginRefused, answered, asked, close, connect, connected
from runtime.postgres.errors import LOST, Connection, is_bad_row, is_lost, loss_told
from runtime.postgres.pauses import backoff_s, pause
from runtime.postgres.session import Session

__all__ = [
    "ASKED_S",
    "CONNECT_S",
    "LOST",
    "Connection",
    "LoginRefused",
    "Session",
    "answered",
    "asked",
    "backoff_s",
    "close",
    "connect",
    "connected",
    "is_bad_row",
    "is_lost",
    "loss_told",
    "pause",
]
