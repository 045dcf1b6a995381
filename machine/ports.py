"""Loopback ports for parts that are reached only from this machine.

The default range is below the one that the kernel uses for outgoing connections, so that a part that is restarted finds
its port free. HONGBAO_PORTS names another range.

Between the choice of a port and the part that listens on it seconds may pass, in which it looks free to any process. So
a reserved port is held under a name in the kernel (an abstract Unix socket), which one process of this machine can
have: until something listens there, or the process ends, however it ends. A program that is not ours knows nothing of
this; if it takes the port, the part fails and says so.
"""

import errno
import os
import random
import socket

from errors import Refused, Unavailable

LOOPBACK = "127.0.0.1"
LOWEST, HIGHEST = 18_000, 32_000
RANGE = "HONGBAO_PORTS"
"""Names the range as `18000-19999`, both ends included: for a firewall, or to keep several stacks apart."""
PORTS_END = 65_536
TRIES = 200
"""Random attempts to find a free port."""

_reserved: set[int] = set()
"""Ports that this process has reserved, whether or not their parts listen already."""
_held: dict[int, int] = {}
"""Reserved ports on which no part has listened yet, with the descriptor of the socket that holds each one's name."""


def port_range() -> range:
    """Return the ports to choose from; raises Refused `ports_invalid` if HONGBAO_PORTS is not a range of ports."""
    text = os.environ.get(RANGE, f"{LOWEST}-{HIGHEST - 1}")
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last) < PORTS_END):
        raise Refused("ports_invalid", f"{RANGE}={text} is not a range of ports; write it as 18000-19999")
    return range(int(first), int(last) + 1)


def is_free(port: int) -> bool:
    """Say whether a server could listen on this loopback port now."""
    return bind_error(port, LOOPBACK) is None


def bind_error(port: int, host: str) -> Exception | None:
    """Return the error of binding a socket there now, None if it succeeds: an OSError, or a UnicodeError of `host`."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, UnicodeError) as error:
            return error
    return None


def reserve(port: int) -> bool:
    """Reserve `port` for one part of this process; returns False if it is not free or reserved, here or elsewhere."""
    _let_go_of_used()
    if port in _reserved or (name := _hold(port)) is None:
        return False
    # Looked at while the name is ours: the process that had it before may listen by now.
    if not is_free(port):
        os.close(name)
        return False
    _held[port] = name
    _reserved.add(port)
    return True


def _hold(port: int) -> int | None:
    """Take the name of `port`; None if another process has it."""
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind(f"\0hongbao-port-{port}")
    except OSError as error:
        name.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return None
    return name.detach()


def _let_go_of_used() -> None:
    for port in [one for one in _held if not is_free(one)]:
        os.close(_held.pop(port))


def free_port() -> int:
    """Reserve and return a random free port of the range; raises Unavailable `no_free_port`."""
    ports = port_range()
    for _ in range(TRIES):
        port = random.choice(ports)  # noqa: S311 - no secret
        if reserve(port):
            return port
    where = f"from {ports[0]} to {ports[-1]}"
    raise Unavailable("no_free_port", f"no free loopback port {where}; stop something, or set {RANGE}")
