"""How a connection to Postgres notices that its host is gone: TCP's own probes, which asyncpg does not set."""

import os
import socket
from typing import Any

KEEPALIVE_S, PROBE_S, PROBES = 10, 5, 3
"""A connection on which nothing has arrived for KEEPALIVE_S is probed; a host that is gone is noticed PROBES * PROBE_S
later, also by commands that wait for a long statement without a deadline of their own."""
UNACKNOWLEDGED_MS = 20_000
"""What was sent and is not acknowledged for this long has lost its host; the kernel's own patience is 15 minutes."""


def notice_a_host_that_is_gone(connection: Any) -> None:
    """Set the options of TCP that asyncpg does not set; nothing for a Unix socket."""
    found = connection._transport.get_extra_info("socket")  # noqa: SLF001 - asyncpg has no public way to it
    if found is None or found.family not in (socket.AF_INET, socket.AF_INET6):
        return
    # A copy of the descriptor: uvloop's socket has no setsockopt, and the options belong to the connection.
    with socket.socket(fileno=os.dup(found.fileno())) as copy:
        copy.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", KEEPALIVE_S),
            ("TCP_KEEPINTVL", PROBE_S),
            ("TCP_KEEPCNT", PROBES),
            ("TCP_USER_TIMEOUT", UNACKNOWLEDGED_MS),
        ):
            if hasattr(socket, name):  # Linux; elsewhere the kernel's own values hold
                copy.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
