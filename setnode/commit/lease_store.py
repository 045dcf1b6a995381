"""Leases in memcached: one value for each key, a list of (token, end), changed by CAS.

pymemcache is synchronous: `Admission` calls these methods in a small thread pool of its own. Each thread has one
connection with socket timeouts, and no call is cancelled half way. After a failure memcached is not asked for
MEMCACHED_AWAY_S. Failures, and leases given out without asking, count in `hongbao_admission_memcached_away_total`.
"""

import os
import threading
import time
from collections.abc import Mapping

import msgspec
from pymemcache.client.base import Client

from runtime import logs, metrics
from runtime.unreadable import UNREADABLE
from setnode.limits import CAS_TRIES, CLOCK_SKEW_S, CONTENDED_S, LEASE_LIST_S, MEMCACHED_AWAY_S, MEMCACHED_TIMEOUT_S

Held = tuple[str, int]
"""Token and the instant (ms since the epoch) at which the lease ends by itself."""

_log = logs.get("setnode")
_away = metrics.counter("hongbao_admission_memcached_away_total", "Admissions decided by the local cap alone")
_inside = metrics.gauge("hongbao_admission_inside", "Leases of this SET seen at the last entry")


class LeaseStore:
    """The lists of leases of one SET, seen from one process. `me` identifies the process in its tokens and marks.

    A lease in a list that ends later than one given out now (and CLOCK_SKEW_S) belongs to no server: memcached asks
    for no password, and a stranger who reaches it could otherwise hold the cap for ever. It is dropped like one that
    has ended.
    """

    def __init__(self, memcached: str, lease_s: float) -> None:
        self._lease_ms = int(lease_s * 1000)
        host, _, port = memcached.rpartition(":")
        # pymemcache takes the path of a socket, or host and port.
        self._address = memcached if memcached.startswith("/") else (host, int(port))
        self._own = threading.local()
        self._clients: list[Client] = []
        self.me = f"{os.getpid():x}.{time.time_ns():x}"
        self._away_until = 0.0
        self._losses = 0

    def append(self, key: str, token: str, cap: int) -> bool:
        """Append a lease unless the list has `cap`; True if it was appended, or if memcached is away.

        False, too, if other servers changed the list at each of CAS_TRIES tries.
        """
        if self._is_away():
            _away.inc()
            return True
        try:
            client = self._client()
            for _ in range(CAS_TRIES):
                leases, cas = _read(client, key, self._lease_ms)
                if len(leases) >= cap:
                    return False
                leases.append((token, _now_ms() + self._lease_ms))
                if _write(client, key, leases, cas):
                    _inside.set(len(leases))
                    return True
        except Exception as error:  # noqa: BLE001 - whatever memcached answers, no commit may fail by it
            self._lost(error)
            return True
        return False

    def remove(self, key: str, token: str) -> None:
        """Remove a lease; one that cannot be removed ends by itself."""
        if self._is_away():
            return
        try:
            client = self._client()
            for _ in range(CAS_TRIES):
                leases, cas = _read(client, key, self._lease_ms)
                left = [lease for lease in leases if lease[0] != token]
                if cas is None or _write(client, key, left, cas):
                    return
        except Exception as error:  # noqa: BLE001 - as above; the lease ends by itself
            self._lost(error)

    def look(self, key: str, token: str, cap: int, marks: Mapping[str, int]) -> tuple[bool, list[int]]:
        """Return whether the list has room for one more lease, and for which envelopes another process left a mark.

        `marks` maps the keys of marks to envelopes. There is no room if memcached does not hold `token` or is away: the
        holder must acquire its lease anew.
        """
        if self._is_away():
            return False, []
        try:
            client = self._client()
            leases, _ = _read(client, key, self._lease_ms)
            found = client.get_many(list(marks)) if marks else {}
        except Exception as error:  # noqa: BLE001 - as above
            self._lost(error)
            return False, []
        # A mark of this process is from another of its workers, or from before it acquired the envelope.
        contended = [marks[one] for one, owner in found.items() if owner != self.me.encode()]
        return len(leases) < cap and token in {one for one, _ in leases}, contended

    def holders(self, key: str) -> frozenset[str]:
        """Return the tokens in a list; none if memcached is away."""
        if self._is_away():
            return frozenset()
        try:
            leases, _ = _read(self._client(), key, self._lease_ms)
        except Exception as error:  # noqa: BLE001 - as above
            self._lost(error)
            return frozenset()
        return frozenset(token for token, _ in leases)

    def take_over(self, key: str, gone: frozenset[str], token: str) -> bool:
        """Put a lease in the place of those of `gone`; False if the list has others by now, or memcached is away."""
        if self._is_away():
            return False
        try:
            client = self._client()
            leases, cas = _read(client, key, self._lease_ms)
            if cas is None or {one for one, _ in leases} != gone:
                return False
            return _write(client, key, [(token, _now_ms() + self._lease_ms)], cas)
        except Exception as error:  # noqa: BLE001 - as above
            self._lost(error)
            return False

    def mark(self, key: str) -> None:
        """Leave a mark of this process that expires after CONTENDED_S."""
        if self._is_away():
            return
        try:
            self._client().set(key, self.me, expire=CONTENDED_S)
        except Exception as error:  # noqa: BLE001 - as above; a mark expires by itself
            self._lost(error)

    def close(self) -> None:
        """Close all connections; no call may be under way."""
        for client in self._clients:
            client.close()

    def _is_away(self) -> bool:
        return time.monotonic() < self._away_until

    def _client(self) -> Client:
        client: Client | None = getattr(self._own, "client", None)
        if client is not None and self._own.made_at != self._losses:
            self._drop(client)
            client = None
        if client is None:
            client = Client(
                self._address, connect_timeout=MEMCACHED_TIMEOUT_S, timeout=MEMCACHED_TIMEOUT_S, no_delay=True
            )
            self._own.client, self._own.made_at = client, self._losses
            self._clients.append(client)
        return client

    def _drop(self, client: Client) -> None:
        self._own.client = None
        self._clients.remove(client)
        client.close()

    def _lost(self, error: Exception) -> None:
        _away.inc()
        self._away_until = time.monotonic() + MEMCACHED_AWAY_S
        # The other threads' connections are lost as well: each thread makes a new one at its next call.
        self._losses += 1
        _log.error("memcached is away; the local cap holds", error=f"{type(error).__name__}: {error}")


def _read(client: Client, key: str, lease_ms: int) -> tuple[list[Held], bytes | None]:
    """Return the leases that hold now, and the token for CAS (None if there is no value)."""
    raw, cas = client.gets(key)
    try:
        leases = msgspec.msgpack.decode(raw, type=list[Held]) if raw else []
    except UNREADABLE:
        leases = []  # another program wrote this value; the next write replaces it
    now_ms = _now_ms()
    latest_ms = now_ms + lease_ms + int(CLOCK_SKEW_S * 1000)
    return [lease for lease in leases if now_ms < lease[1] <= latest_ms], cas


def _write(client: Client, key: str, leases: list[Held], cas: bytes | None) -> bool:
    value = msgspec.msgpack.encode(leases)
    if cas is None:
        return bool(client.add(key, value, expire=LEASE_LIST_S, noreply=False))
    return bool(client.cas(key, value, cas, expire=LEASE_LIST_S, noreply=False))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
