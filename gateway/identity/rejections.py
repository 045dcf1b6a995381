"""How many rejected tokens one address may cost us.

A token that nobody has seen costs an HMAC and two JSON documents before it can be rejected, and whoever forges it pays
nothing. So each address has a bucket of rejections; while it is empty, tokens from there that are not yet known are
answered 429 unread. Tokens that are known pass without a look at any of this: a user who is logged in behind the same
proxy as a forger notices nothing.

Only so many addresses are remembered. The one that was quiet for longest is forgotten first, and with that forgiven.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from ipaddress import IPv6Address, ip_address
from typing import Final

from envelope.errors import Unavailable
from gateway.limits import REJECTING_ADDRESSES, REJECTIONS_PER_S

PEER: Final[ContextVar[str]] = ContextVar("peer", default="")
"""The address of the client whose connection this task serves; `gateway.front` sets it, once a connection."""

_NS: Final = 1_000_000_000
_NETWORK_BITS: Final = 64
"""Whoever has one address of IPv6 has all that share its first half."""


class Rejections:
    """A bucket for each address: holds `per_s` rejections and fills up again in a second.

    Kept as one number each, the instant at which the bucket is full again (GCRA, the cell rate algorithm of ATM), in
    whole nanoseconds: no rounding gives or takes a rejection.
    """

    def __init__(
        self,
        per_s: int = REJECTIONS_PER_S,
        addresses: int = REJECTING_ADDRESSES,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._per_s = per_s
        self._interval_ns = _NS // per_s
        self._bearable_ns = (per_s - 1) * self._interval_ns
        self._addresses = addresses
        self._now_ns = now_ns
        self._full_at: OrderedDict[str, int] = OrderedDict()

    def check(self) -> None:
        """Raise Unavailable `too_many_rejected_tokens` while this client's bucket is empty."""
        full_at = self._full_at.get(_place(PEER.get()))
        if full_at is None:
            return
        wait_ns = full_at - self._now_ns() - self._bearable_ns
        if wait_ns > 0:
            raise Unavailable(
                "too_many_rejected_tokens",
                f"more than {self._per_s} bad tokens a second come from your address; new ones are not looked at",
                retry_after_s=wait_ns / _NS,
            )

    def count(self) -> None:
        """Take one rejection out of this client's bucket."""
        place, now_ns = _place(PEER.get()), self._now_ns()
        # Taken out and put in again: their order is that of the last rejections.
        full_at = max(self._full_at.pop(place, 0), now_ns)
        if len(self._full_at) >= self._addresses:
            self._full_at.popitem(last=False)
        self._full_at[place] = full_at + self._interval_ns


def _place(address: str) -> str:
    """Return what stands for an address: itself, or its network where a client has a whole one."""
    if ":" not in address:
        return address
    parsed = ip_address(address)
    if not isinstance(parsed, IPv6Address):
        return address
    return str(parsed.ipv4_mapped or f"{int(parsed) >> _NETWORK_BITS:x}/{_NETWORK_BITS}")
