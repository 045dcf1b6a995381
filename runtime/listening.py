"""Listening sockets: made here, or inherited from whoever started this process and keeps them open.

A connection that nobody has accepted yet is lost when its listening socket is closed for the last time. While a
supervisor keeps the socket, connections wait in its queue until the process that restarts accepts them.
"""

import errno
import socket
from collections.abc import Iterable

from errors import Refused

BACKLOG = 4_096
"""Connections that the kernel keeps until they are accepted; Linux allows this many unless told otherwise."""


def listen(host: str, port: int, *, shared: bool = False) -> list[socket.socket]:
    """Return sockets that listen at `host`, one for each of its addresses; port 0 takes a free one.

    `shared`: other processes of this account listen there, too, and the kernel spreads connections among them
    (SO_REUSEPORT). Raises as `refusal`.
    """
    made: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(found):
            one = socket.socket(family, kind, protocol)
            made.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shared:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(address)
            one.listen(BACKLOG)
            one.setblocking(False)
    except (OSError, UnicodeError) as error:
        close_all(made)
        raise refusal(host, port, error) from error
    return made


def refusal(host: str, port: int, error: OSError | UnicodeError) -> Refused:
    """Return why this process cannot listen at an address: `port_taken`, `port_forbidden` or `host_invalid`."""
    # Numbers of getaddrinfo are no errno: some of both are equal. A name that cannot be one is a UnicodeError.
    number = error.errno if isinstance(error, OSError) and not isinstance(error, socket.gaierror) else None
    if number == errno.EADDRINUSE:
        return Refused("port_taken", f"another process listens at {host}:{port}: stop it, or choose another port")
    if number == errno.EACCES:
        return Refused("port_forbidden", f"only root may listen on port {port}; choose one above 1023")
    why = getattr(error, "strerror", None) or error
    return Refused("host_invalid", f"{host!r} is no name or address of this machine ({why})")


def inherited(numbers: str) -> list[socket.socket]:
    """Return listening sockets by their file numbers, with commas between; raises Refused `settings_invalid`."""
    found: list[socket.socket] = []
    try:
        for number in filter(None, numbers.split(",")):
            one = socket.socket(fileno=int(number))
            found.append(one)
            if not one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                raise ValueError(number)
            one.setblocking(False)
    except (OSError, ValueError, OverflowError):
        for one in found:
            one.close()
        raise Refused("settings_invalid", f"{numbers!r} are no listening sockets that this process inherited") from None
    return found


def take_at(found: list[socket.socket], port: int) -> list[socket.socket]:
    """Take those at a port out of the list."""
    taken = [one for one in found if port and one.getsockname()[1] == port]
    for one in taken:
        found.remove(one)
    return taken


def close_all(sockets: Iterable[socket.socket]) -> None:
    """Close them."""
    for one in sockets:
        one.close()
