"""Loopback ports for parts that nobody calls from outside.

Taken from below the range that the kernel uses for outgoing connections, so that a part that is restarted finds
its port free again.
"""

import random
import socket

from envelope.errors import Unavailable

LOOPBACK = "127.0.0.1"
LOWEST, HIGHEST = 18_000, 32_000
TRIES = 200

_given: set[int] = set()


def is_free(port: int) -> bool:
    """Say whether a server could listen on `port` now."""
    return what_prevents(port, LOOPBACK) is None


def what_prevents(port: int, host: str) -> Exception | None:
    """Return the error that a server would meet if it listened there now; an OSError, or a name that is none."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, UnicodeError) as error:
            return error
    return None


def free_port() -> int:
    """Return a port that is free now and that we have not given to anybody else."""
    for _ in range(TRIES):
        port = random.randrange(LOWEST, HIGHEST)  # noqa: S311 - no secret
        if port not in _given and is_free(port):
            _given.add(port)
            return port
    raise Unavailable("no_free_port", f"no free loopback port between {LOWEST} and {HIGHEST}; stop something")
