"""Instants as clients see them."""

from functools import lru_cache

from runtime.clock import from_ms
from setnode.limits import TIMESTAMPS_KEPT


def rfc3339(milliseconds: int) -> str:
    """Write an instant (ms since the epoch) as RFC 3339 in UTC with milliseconds."""
    second, rest = divmod(milliseconds, 1000)
    return f"{_second(second)}.{rest:03d}Z"


@lru_cache(maxsize=TIMESTAMPS_KEPT)
def _second(second: int) -> str:
    """Write an instant without its milliseconds. Cached, because many claims of a crowd share the second."""
    return from_ms(second * 1000).strftime("%Y-%m-%dT%H:%M:%S")
