"""How many clients may be connected, in all and from one address, and how long one may take to ask for something.

A connection costs a file descriptor and some KB whether or not anything comes over it, so that a client could hold all
of them with no traffic at all. Who is above a bound is not refused; the connections that have been idle longest are
ended instead: those of somebody who only holds them, or of a client who makes another one when it needs it.
"""

import asyncio
import heapq
import resource
from collections import Counter
from typing import Protocol

from errors import Refused
from gateway.identity.auth_failures import network_of
from gateway.identity.proxies import TrustedProxies
from gateway.limits import HEAD_S, MAKE_ROOM, SPARE_FILES, SWEEP_AT_ONCE
from runtime import logs, metrics

_log = logs.get("gateway")
_open = metrics.gauge("hongbao_http_connections", "Connections of clients")
_ended = metrics.counter("hongbao_http_connections_ended_total", "Connections that we ended", ("reason",))


class Held(Protocol):
    """A client's connection, as far as its bounds are concerned."""

    address: str
    idle_since: float
    """When it was made or its last answer was written (loop time)."""
    asked: bool
    """Whether a request has come over it."""
    began: bool
    """Whether bytes have come since the last whole head."""
    began_at: float | None
    """When `ConnectionBounds.sweep` first saw that."""

    @property
    def kept_s(self) -> float:
        """How long it may be idle between two requests."""

    @property
    def serving(self) -> bool:
        """Whether a request is being answered, or waits for it."""

    def retire(self) -> None:
        """End it soon, in good order: the gateway goes away."""

    def hang_up(self) -> None:
        """End it at once."""


class ConnectionBounds:
    """Knows all connections. `most` in all, `per_address` from one address that is no proxy of ours."""

    def __init__(self, most: int, per_address: int, proxies: TrustedProxies) -> None:
        self._most = min(most, _files() - SPARE_FILES)
        if self._most < 1:
            raise Refused("settings_invalid", f"this process may open {_files()} files; raise it (ulimit -n)")
        if self._most < most:
            _log.warning("fewer connections than set: files are limited (ulimit -n)", connections=self._most)
        self._per_address = per_address
        self.proxies = proxies
        self._all: set[Held] = set()
        self._by_address: dict[str, set[Held]] = {}
        """By network: an IPv6 client has a whole one (`network_of`)."""
        self._room_made: Counter[str] = Counter()
        """Connections ended by reason since the last `sweep`, which logs them."""

    def __len__(self) -> int:
        return len(self._all)

    def all(self) -> list[Held]:
        """Return all connections."""
        return list(self._all)

    def add(self, one: Held) -> bool:
        """Take in a new connection; above a bound the idlest are ended, some at a time.

        Return False if there are none: on each connection within the bound a request is being answered.
        """
        if len(self._all) >= self._most and not self._make_room(self._all, "too_many"):
            return False
        network = network_of(one.address)
        near = self._by_address.get(network)
        if near is None:
            near = self._by_address[network] = set()
        elif (
            len(near) >= self._per_address
            and not self.proxies.trusts(one.address)
            and not self._make_room(near, "too_many_of_an_address")
        ):
            return False
        self._all.add(one)
        # Making room may have ended the last connection of the network, and forgotten it.
        self._by_address.setdefault(network, near).add(one)
        return True

    def replace(self, before: Held, one: Held) -> None:
        """Take in a connection in the place of another one of the same client."""
        self.remove(before)
        self._all.add(one)
        self._by_address.setdefault(network_of(one.address), set()).add(one)

    def remove(self, one: Held) -> None:
        """Forget a connection that has ended."""
        self._all.discard(one)
        network = network_of(one.address)
        near = self._by_address.get(network)
        if near is not None:
            near.discard(one)
            if not near:
                del self._by_address[network]

    async def sweep(self) -> None:
        """End connections whose first request, or begun head, has not come within HEAD_S, and idle ones.

        Call it every second.
        """
        now, late = asyncio.get_running_loop().time(), 0
        for number, one in enumerate(list(self._all), 1):
            late += self._check(one, now)
            if not number % SWEEP_AT_ONCE:
                await asyncio.sleep(0)
        _open.set(len(self._all))
        made, self._room_made = self._room_made, Counter()
        if made:
            _log.warning("connections were ended to stay within the bounds", **made, left=len(self._all))
        if late:
            _log.info("connections ended: no request came", ended=late, left=len(self._all))

    def _check(self, one: Held, now: float) -> bool:
        if one.serving or (one.asked and not one.began):
            one.began_at = None
            if one.serving or now - one.idle_since < one.kept_s:
                return False
            self._end(one, "idle")
            return False
        if one.asked and one.began_at is None:
            one.began_at = now
        since = one.began_at if one.asked else one.idle_since
        if since is None or now - since < HEAD_S:
            return False
        self._end(one, "no_request")
        return True

    def _make_room(self, among: set[Held], reason: str) -> bool:
        """End the idlest; return whether there were any."""
        idle = [one for one in among if not one.serving]
        # Some at a time: to look for the idlest costs a look at all.
        idlest = heapq.nsmallest(max(1, len(among) // MAKE_ROOM), idle, key=lambda one: one.idle_since)
        for one in idlest:
            self.end(one, reason)
        return bool(idlest)

    def end(self, one: Held, reason: str) -> None:
        """End a connection to make room; `reason` is a label of the metric."""
        self._room_made[reason] += 1
        self._end(one, reason)

    def _end(self, one: Held, reason: str) -> None:
        self.remove(one)
        _ended.labels(reason).inc()
        one.hang_up()


def _files() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 30 if soft == resource.RLIM_INFINITY else soft
