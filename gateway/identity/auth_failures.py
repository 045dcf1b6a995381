"""Limits how many rejected tokens one address may send, because verifying one costs CPU (an HMAC, two parses).

Each address has a token bucket of rejections. While it is empty, a bearer token from there that is not in the cache of
verified ones is answered 429 without verifying it. A cached token is accepted before this limit is checked, so a
logged-in user behind the same proxy as a forger notices nothing (docs/decisions/0009-what-the-door-refuses.md).

AUTH_FAILURE_ADDRESSES addresses are kept; the one whose last rejection is oldest is dropped first.
"""

import time
from collections.abc import Callable
from contextvars import ContextVar
from ipaddress import IPv6Address, ip_address
from typing import Final

from errors import Unavailable
from gateway.identity.buckets import NS, Buckets
from gateway.limits import AUTH_FAILURE_ADDRESSES, AUTH_FAILURES_PER_S

CLIENT_ADDRESS: Final[ContextVar[str]] = ContextVar("peer", default="")
"""The address of the client whose connection this task serves; `gateway.connection` sets it, once a connection."""

_NETWORK_BITS: Final = 64
"""An IPv6 client can use any address of its /64 network, so the network is counted."""


class AuthFailureLimiter:
    """A bucket for each address: it holds `per_s` rejections and fills again in a second."""

    def __init__(
        self,
        per_s: int = AUTH_FAILURES_PER_S,
        addresses: int = AUTH_FAILURE_ADDRESSES,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._per_s = per_s
        self._buckets = Buckets(per_s, 1.0, addresses, now_ns)

    def check(self) -> None:
        """Raise Unavailable `too_many_rejected_tokens` while this client's bucket is empty."""
        wait_ns = self._buckets.wait_ns(network_of(CLIENT_ADDRESS.get()))
        if wait_ns > 0:
            raise Unavailable(
                "too_many_rejected_tokens",
                f"more than {self._per_s} bad tokens a second come from your address; new ones are not looked at",
                retry_after_s=wait_ns / NS,
            )

    def count(self) -> None:
        """Take one rejection out of this client's bucket."""
        self._buckets.count(network_of(CLIENT_ADDRESS.get()))


def network_of(address: str) -> str:
    """Return the network that one client can have: the address itself, its /64 for IPv6."""
    if ":" not in address:
        return address
    parsed = ip_address(address)
    if not isinstance(parsed, IPv6Address):
        return address
    return str(parsed.ipv4_mapped or f"{int(parsed) >> _NETWORK_BITS:x}/{_NETWORK_BITS}")
