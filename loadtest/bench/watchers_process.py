"""Streams in a process of their own: `python -m loadtest.bench.watchers_process URL ENVELOPES TOKENS`.

One stream for each line of the file TOKENS, from many addresses, as people have them. Says `N connected` once each has
received its first event, keeps them open without reading, and ends at a line on standard input.
"""

import socket
import sys
from pathlib import Path
from typing import Final

from runtime.settings import host_and_port

ADDRESSES: Final = 200
"""Of this machine, 127.0.1.1 and following."""
BUFFER: Final = 1 << 20
"""What the kernel takes of a stream that is not read."""
FIRST_S: Final = 30.0
AT_ONCE: Final = 100
"""Streams that begin at once: a gateway's line has room for them."""


def main(url: str, envelopes: str, tokens: str) -> None:
    """Connect, wait, and end."""
    host, port = host_and_port(url.removeprefix("http://"))
    streams: list[socket.socket] = []
    for number, token in enumerate(Path(tokens).read_text("ascii").split()):
        one = socket.socket()
        one.settimeout(FIRST_S)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        one.bind((f"127.0.1.{number % ADDRESSES + 1}", 0))
        one.connect((host, port))
        head = f"GET /v1/live?envelopes={envelopes} HTTP/1.1\r\nHost: watch\r\nAuthorization: Bearer {token}\r\n\r\n"
        one.sendall(head.encode())
        streams.append(one)
        if not len(streams) % AT_ONCE:
            _read_first(streams[-AT_ONCE:])
    _read_first(streams[len(streams) // AT_ONCE * AT_ONCE :])
    sys.stdout.write(f"{len(streams)} connected\n")
    sys.stdout.flush()
    sys.stdin.readline()


def _read_first(streams: list[socket.socket]) -> None:
    for one in streams:
        told = b""
        while b"event: envelope" not in told:
            some = one.recv(65536)
            told += some
            if not some or told.startswith(b"HTTP/1.1 5"):
                sys.exit(f"there is no stream: {told[:300]!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])
