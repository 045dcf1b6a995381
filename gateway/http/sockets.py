"""Options of a client's socket: what the kernel keeps for a client that does not read."""

import asyncio
import contextlib
import os
import socket
import struct
from typing import Final

from gateway.limits import KERNEL_UNSENT_BYTES

_AT_ONCE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER with no time."""


def bound_unsent(transport: asyncio.BaseTransport) -> None:
    """Let the kernel take KERNEL_UNSENT_BYTES that cannot go out yet, where it would take 4 MB; a new connection."""
    _set(transport, socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, KERNEL_UNSENT_BYTES)


def forget_unsent(transport: asyncio.BaseTransport) -> None:
    """Let the kernel drop what is not sent once the connection is closed, where it would keep it for minutes."""
    _set(transport, socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)


def _set(transport: asyncio.BaseTransport, level: int, option: int, value: int | bytes) -> None:
    found = transport.get_extra_info("socket")
    # A copy of the descriptor: uvloop's socket has no setsockopt. Without a file left for it, or on a connection that
    # has just ended, the kernel's own values hold.
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(found.fileno())) as copy:
        copy.setsockopt(level, option, value)
