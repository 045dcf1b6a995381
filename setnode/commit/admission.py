"""Admission: how many transactions may be inside the SET's Postgres at once, over all its servers.

memcached holds one list of leases per SET (and one per hot envelope); entering appends a lease by CAS, leaving
removes it. A lease expires by itself, so a killed server leaks none. memcached is never an authority: when it is
away, or answers what nobody can read, a local cap holds, an alarm counts, and the money is as right as before.

pymemcache is synchronous: its calls run in a small thread pool of their own, with socket timeouts, one connection
per thread, never cancelled half way.
"""

import asyncio
import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import msgspec
from pymemcache.client.base import Client

from envelope.errors import Unavailable
from runtime import logs, metrics
from setnode.limits import ADMISSION_WAIT_S, TURN_S

TIMEOUT_S = 0.2
"""memcached answers in 0.1 ms; after this long it is away."""
CAS_TRIES = 20
AWAY_S = 1.0
"""After a failure memcached is left alone for this long, so that its absence does not slow every commit."""
THREADS = 3
WANTED_S = 1
"""How long a mark at a hot envelope stands that another server wants it."""
YIELD_S = 0.05
"""How long the holder then stays away from it: the other looks every 20 ms (`claims.FULL_PAUSE_S`)."""

Held = tuple[str, int]
"""Token and the instant (ms since the epoch) at which it ends by itself."""

_log = logs.get("setnode")
_refused = metrics.counter("hongbao_admission_refused_total", "Transactions refused at the cap", ("cap",))
_away = metrics.counter("hongbao_admission_memcached_away_total", "Admissions decided by the local cap alone")
_inside = metrics.gauge("hongbao_admission_inside", "Leases of this SET seen at the last entry")


@dataclass(frozen=True)
class AdmissionConfig:
    """Caps and waits. `cap` is for the whole SET, `envelope_cap` for each hot envelope over all servers."""

    cap: int = 8
    envelope_cap: int = 1
    local_cap: int = 4
    wait_s: float = ADMISSION_WAIT_S
    lease_s: float = 10.0


@dataclass
class Lease:
    """An entry taken; `hot` are the envelopes whose own cap it counts against too."""

    token: str
    hot: set[int] = field(default_factory=set)


class Turn:
    """How long an entry serves one transaction after the other.

    It ends after TURN_S where somebody may be waiting, and after `most_s` anyhow. Whether there is room is asked beside
    the transactions, half a turn ahead: a turn that goes on costs no transaction a wait.
    """

    def __init__(self, has_room: Callable[[], asyncio.Future[bool]], now: float, most_s: float) -> None:
        self._has_room = has_room
        self._end = now + most_s
        self._answer: asyncio.Future[bool] | None = None
        self._begin(now)

    def over(self, now: float) -> bool:
        """Say whether the entry must be given back; asked between two transactions, with the loop's time."""
        if now < self._ask_at:
            return False
        if now >= self._end:
            return True
        if self._answer is None:
            self._answer = self._has_room()
        if now < self._over_at:
            return False
        if not self._answer.done() or not self._answer.result():
            return True
        self._begin(now)
        return False

    def _begin(self, now: float) -> None:
        self._over_at = now + TURN_S
        # The last one cannot go on, so nobody is asked.
        self._ask_at = now + TURN_S / 2 if self._over_at < self._end else self._end
        self._answer = None


class Admission:
    """Gives out entries; `enter` waits a little at the cap, then raises Unavailable(`busy`)."""

    def __init__(self, set_name: str, memcached: str, config: AdmissionConfig) -> None:
        host, _, port = memcached.rpartition(":")
        self._address = (host, int(port))
        self._key = f"hongbao:{set_name}:inside"
        self._config = config
        self._local = asyncio.Semaphore(config.local_cap)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="memcached")
        self._own = threading.local()
        self._clients: list[Client] = []
        self._me = f"{os.getpid():x}.{time.time_ns():x}"
        self._tokens = (f"{self._me}.{number}" for number in itertools.count())
        self._away_until = 0.0
        self._losses = 0
        self._yielded: dict[int, float] = {}

    async def enter(self) -> Lease:
        """Take an entry for one transaction at a time; raises Unavailable(`busy`) after a bounded wait."""
        try:
            async with asyncio.timeout(self._config.wait_s):
                await self._local.acquire()
        except TimeoutError:
            raise _busy("local") from None
        try:
            token = next(self._tokens)
            if not await self._take(self._key, token, self._config.cap, self._config.wait_s):
                raise _busy("set")
        except BaseException:
            self._local.release()
            raise
        return Lease(token)

    async def enter_hot(self, envelope_ids: Iterable[int], lease: Lease) -> set[int]:
        """Take an entry of each hot envelope under the same lease; returns those that are at their cap."""
        now, full = asyncio.get_running_loop().time(), set()
        for envelope_id in envelope_ids:
            key = self._hot_key(envelope_id)
            if self._yielded.get(envelope_id, 0.0) > now:
                full.add(envelope_id)
            elif await self._take(key, lease.token, self._config.envelope_cap, 0.0):
                lease.hot.add(envelope_id)
            else:
                full.add(envelope_id)
                self._threads.submit(self._mark, key)
                _refused.labels("envelope").inc()
        return full

    def turn(self, lease: Lease, most_s: float) -> Turn:
        """Begin a turn of at most `most_s` under an entry just taken."""
        return Turn(lambda: self._has_room(lease), asyncio.get_running_loop().time(), most_s)

    def leave(self, lease: Lease) -> None:
        """Give the entries back; returns at once, the removal runs behind."""
        self._local.release()
        for key in (self._key, *map(self._hot_key, lease.hot)):
            self._threads.submit(self._remove, key, lease.token)

    def close(self) -> None:
        """Let the removals finish and end the threads."""
        self._threads.shutdown(wait=True, cancel_futures=False)
        for client in self._clients:
            client.close()

    async def _take(self, key: str, token: str, cap: int, wait_s: float) -> bool:
        loop = asyncio.get_running_loop()
        end = loop.time() + wait_s
        while True:
            inside = await loop.run_in_executor(self._threads, self._append, key, token, cap)
            if inside:
                return True
            if loop.time() >= end:
                return False
            await asyncio.sleep(random.uniform(0.001, 0.005))  # noqa: S311 - jitter, no secret

    def _has_room(self, lease: Lease) -> asyncio.Future[bool]:
        if self._local.locked():
            full: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            full.set_result(False)
            return full
        return asyncio.ensure_future(self._look_around(lease))

    async def _look_around(self, lease: Lease) -> bool:
        """Say whether nobody waits for an entry; a hot envelope that is waited for is left to others for a moment."""
        loop, hot = asyncio.get_running_loop(), list(lease.hot)
        room, wanted = await loop.run_in_executor(self._threads, self._look, lease.token, hot)
        now = loop.time()
        for envelope_id in [one for one, until in self._yielded.items() if until <= now]:
            del self._yielded[envelope_id]
        self._yielded.update(dict.fromkeys(wanted, now + TURN_S + YIELD_S))
        return room and not wanted

    def _hot_key(self, envelope_id: int) -> str:
        return f"{self._key}:{envelope_id}"

    def _wanted_key(self, hot_key: str) -> str:
        return f"{hot_key}:wanted"

    def _append(self, key: str, token: str, cap: int) -> bool:
        """Append a lease by CAS; True when inside, also when memcached is away (the local cap holds)."""
        if time.monotonic() < self._away_until:
            _away.inc()
            return True
        try:
            client = self._client()
            for _ in range(CAS_TRIES):
                leases, cas = _read(client, key)
                if len(leases) >= cap:
                    return False
                leases.append((token, _now_ms() + int(self._config.lease_s * 1000)))
                if _write(client, key, leases, cas):
                    _inside.set(len(leases))
                    return True
        except Exception as error:  # noqa: BLE001 - an answer that cannot be read is none, and no commit's fault
            self._lost(error)
            return True
        return False

    def _look(self, token: str, hot: Sequence[int]) -> tuple[bool, list[int]]:
        """Return whether the SET has room for one more, and which of `hot` another server wants.

        An entry that memcached does not know of, or cannot be asked about, has no room: its holder must enter anew.
        """
        if time.monotonic() < self._away_until:
            return False, []
        try:
            client = self._client()
            leases, _ = _read(client, self._key)
            keys = {self._wanted_key(self._hot_key(one)): one for one in hot}
            marks = client.get_many(list(keys)) if keys else {}
        except Exception as error:  # noqa: BLE001 - as above
            self._lost(error)
            return False, []
        # A mark of our own is what the other connection of this process left, or we ourselves before we got in.
        wanted = [keys[key] for key, mark in marks.items() if mark != self._me.encode()]
        return len(leases) < self._config.cap and token in {one for one, _ in leases}, wanted

    def _mark(self, key: str) -> None:
        """Let the server that holds this hot envelope know that it is wanted here."""
        if time.monotonic() < self._away_until:
            return
        try:
            self._client().set(self._wanted_key(key), self._me, expire=WANTED_S)
        except Exception as error:  # noqa: BLE001 - as above; a mark ends by itself
            self._lost(error)

    def _remove(self, key: str, token: str) -> None:
        """Remove a lease by CAS; what cannot be removed expires by itself."""
        if time.monotonic() < self._away_until:
            return
        try:
            client = self._client()
            for _ in range(CAS_TRIES):
                leases, cas = _read(client, key)
                left = [lease for lease in leases if lease[0] != token]
                if cas is None or _write(client, key, left, cas):
                    return
        except Exception as error:  # noqa: BLE001 - as above; the lease expires by itself
            self._lost(error)

    def _client(self) -> Client:
        client: Client | None = getattr(self._own, "client", None)
        if client is not None and self._own.made_at != self._losses:
            self._drop(client)
            client = None
        if client is None:
            client = Client(self._address, connect_timeout=TIMEOUT_S, timeout=TIMEOUT_S, no_delay=True)
            self._own.client, self._own.made_at = client, self._losses
            self._clients.append(client)
        return client

    def _drop(self, client: Client) -> None:
        self._own.client = None
        self._clients.remove(client)
        client.close()

    def _lost(self, error: Exception) -> None:
        _away.inc()
        self._away_until = time.monotonic() + AWAY_S
        # What one thread has lost the others have lost too: each makes a new connection at its next turn.
        self._losses += 1
        _log.error("memcached is away; the local cap holds", error=f"{type(error).__name__}: {error}")


def _read(client: Client, key: str) -> tuple[list[Held], bytes | None]:
    raw, cas = client.gets(key)
    try:
        leases = msgspec.msgpack.decode(raw, type=list[Held]) if raw else []
    except msgspec.MsgspecError:
        leases = []  # not ours, whoever put it there; the next write mends it
    now_ms = _now_ms()
    return [lease for lease in leases if lease[1] > now_ms], cas


def _write(client: Client, key: str, leases: list[Held], cas: bytes | None) -> bool:
    value = msgspec.msgpack.encode(leases)
    if cas is None:
        return bool(client.add(key, value, expire=60, noreply=False))
    return bool(client.cas(key, value, cas, expire=60, noreply=False))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _busy(cap: str) -> Unavailable:
    _refused.labels(cap).inc()
    return Unavailable("busy", "too many transactions at once; try again in a moment", retry_after_s=1.0)
