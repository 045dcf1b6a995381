"""What both ends of a link agree on: its path, notices, and how a batch is cut into frames."""

from collections.abc import Callable, Iterator
from typing import Any

from wire.limits import MAX_FRAME_BYTES

LINK_PATH = "/link"
NOTICE = 0
"""The number of a notice: a request that has no reply."""


class LinkEnded(Exception):
    """The other end has closed the connection; no error. Raised in a link's task group, so that its tasks end."""


def frames(encode: Callable[[list[list[Any]]], bytes], batch: list[list[Any]]) -> Iterator[bytes]:
    """Encode a batch into frames that the other end accepts: halved until each fits."""
    data = encode(batch)
    if len(data) <= MAX_FRAME_BYTES // 2 or len(batch) == 1:
        yield data
        return
    middle = len(batch) // 2
    yield from frames(encode, batch[:middle])
    yield from frames(encode, batch[middle:])


def end_of(address: Any) -> str:
    """Return address and port of one end of a connection as text; empty if it has none."""
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else ""
