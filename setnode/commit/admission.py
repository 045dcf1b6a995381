"""Admission: limits the transactions inside the SET's Postgres at once, over all servers of the SET.

A worker acquires a lease before its transactions and releases it afterwards.

Authority. None over money: admission only decides who waits. Postgres refuses the second writer by its unique keys,
however many are inside.

State. memcached holds one list of leases for the SET, and one for each hot envelope; acquiring appends a lease by CAS,
releasing removes it (`lease_store`). Each process also has a local cap (a semaphore). A lease serves one transaction at
a time and may serve several back to back for a `LeaseTerm`.

What is trusted. The list in memcached, as advice: it may be lost, full, or overwritten by another program.

How it fails. A killed server's leases end after `lease_s`, or are taken over where a crowd waits. If memcached is away
or returns something unreadable, the local cap alone holds and a counter rises. `acquire` waits up to `wait_s` at the
local cap and as long at the SET's, then raises Unavailable(`busy`), and nothing has been written. A lease outlives the
longest transaction (COMMIT_DEADLINE_S), so the cap holds also when Postgres is slowest. A lease that seems to end later
than one given out now is dropped: somebody else wrote it. Not covered: clocks of the servers that differ make leases
longer or shorter by the difference.

Hot envelopes. An envelope with HOT_AT waiting requests also needs a lease of its own, so that two servers do not write
it at the same time. A server that does not get one leaves a mark (`contended`); the holder finds it when it next asks
for more time, ends its term, and does not acquire that envelope for YIELD_S. A holder that does not, and has the same
token for HOLDER_GONE_S, was killed or is frozen: its lease is taken over. In ordinary operation the ring sends an
envelope to one server, and no mark is left.

Why it is safe: tests/integration/setnode/test_admission.py (caps over two servers, killed holders, memcached killed,
hung, flushed and filled with rubbish); docs/decisions/0006.
"""

import asyncio
import itertools
import random
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from errors import Unavailable
from runtime import logs, metrics
from setnode.commit.lease_store import LeaseStore
from setnode.commit.lease_term import LeaseTerm
from setnode.limits import (
    ADMISSION_RETRY_S,
    ADMISSION_WAIT_S,
    ENVELOPE_CAP,
    HOLDER_GONE_S,
    LEASE_S,
    LEASE_TERM_S,
    LOCAL_CAP,
    MEMCACHED_THREADS,
    MOST_WANTED,
    SET_CAP,
    YIELD_S,
)

_log = logs.get("setnode")
_refused = metrics.counter("hongbao_admission_refused_total", "Transactions refused at the cap", ("cap",))


@dataclass(frozen=True)
class AdmissionConfig:
    """Caps and waits. `cap` is for the whole SET, `envelope_cap` for each hot envelope, both over all servers."""

    cap: int = SET_CAP
    envelope_cap: int = ENVELOPE_CAP
    local_cap: int = LOCAL_CAP
    wait_s: float = ADMISSION_WAIT_S
    lease_s: float = LEASE_S


@dataclass
class Lease:
    """A lease that was acquired; `hot` are the hot envelopes for which it holds a lease as well."""

    token: str
    hot: set[int] = field(default_factory=set)


class Admission:
    """Gives out the leases of one SET to one process."""

    def __init__(self, set_name: str, memcached: str, config: AdmissionConfig) -> None:
        self._key = f"hongbao:{set_name}:inside"
        self._config = config
        self._store = LeaseStore(memcached, config.lease_s)
        self._local = asyncio.Semaphore(config.local_cap)
        self._threads = ThreadPoolExecutor(MEMCACHED_THREADS, thread_name_prefix="memcached")
        self._tokens = (f"{self._store.me}.{number}" for number in itertools.count())
        self._yielded: dict[int, float] = {}
        """Hot envelopes left to another server, each until an instant of the loop's time."""
        self._wanted: dict[int, tuple[frozenset[str], float]] = {}
        """Hot envelopes that others hold: their tokens, and since when (loop time) they have been the same."""

    async def acquire(self) -> Lease:
        """Acquire a lease for one transaction at a time; raises Unavailable(`busy`) after a bounded wait."""
        try:
            async with asyncio.timeout(self._config.wait_s):
                await self._local.acquire()
        except TimeoutError:
            raise _busy("local") from None
        try:
            token = next(self._tokens)
            if not await self._append(self._key, token, self._config.cap, self._config.wait_s):
                raise _busy("set")
        except BaseException:
            self._local.release()
            raise
        return Lease(token)

    async def acquire_hot(self, envelope_ids: Iterable[int], lease: Lease) -> set[int]:
        """Acquire each hot envelope for `lease`, without waiting; returns those left to another server."""
        now, full = asyncio.get_running_loop().time(), set()
        for envelope_id in envelope_ids:
            if self._yielded.get(envelope_id, 0.0) > now or not await self._acquire_hot(envelope_id, lease):
                full.add(envelope_id)
        return full

    async def _acquire_hot(self, envelope_id: int, lease: Lease) -> bool:
        """Acquire one hot envelope; leave a mark that it is wanted where another server holds it."""
        key = self._hot_key(envelope_id)
        # Before it is acquired: if this is cancelled meanwhile, the release removes what a thread may have appended.
        lease.hot.add(envelope_id)
        if await self._append(key, lease.token, self._config.envelope_cap, 0.0) or await self._take_over(
            envelope_id, key, lease
        ):
            self._wanted.pop(envelope_id, None)
            return True
        lease.hot.discard(envelope_id)
        self._threads.submit(self._store.mark, _contended_key(key))
        _refused.labels("envelope").inc()
        return False

    async def _take_over(self, envelope_id: int, key: str, lease: Lease) -> bool:
        """Take the lease of holders that have not given way for HOLDER_GONE_S; returns whether it was taken.

        A living holder has a new token each term. Our own workers' are not looked at: an actor is with one of them.
        """
        loop = asyncio.get_running_loop()
        holders = await loop.run_in_executor(self._threads, self._store.holders, key)
        before, since = self._wanted.get(envelope_id, (frozenset[str](), 0.0))
        if holders != before:
            if len(self._wanted) >= MOST_WANTED:
                self._wanted.clear()
            self._wanted[envelope_id] = holders, loop.time()
            return False
        if not holders or loop.time() - since < HOLDER_GONE_S or any(one.startswith(self._store.me) for one in holders):
            return False
        taken = await loop.run_in_executor(self._threads, self._store.take_over, key, holders, lease.token)
        if taken:
            _log.warning("a hot envelope's lease is taken over: its holder is gone", envelope_id=str(envelope_id))
        return taken

    def term(self, lease: Lease, most_s: float) -> LeaseTerm:
        """Begin a term of at most `most_s` for a lease that was just acquired."""
        return LeaseTerm(lambda: self._has_room(lease), asyncio.get_running_loop().time(), most_s)

    def release(self, lease: Lease) -> None:
        """Release the lease and its hot envelopes, once; returns at once, memcached is updated in the background."""
        self._local.release()
        for key in (self._key, *map(self._hot_key, lease.hot)):
            self._threads.submit(self._store.remove, key, lease.token)

    def close(self) -> None:
        """Let pending releases finish and end the threads."""
        self._threads.shutdown(wait=True, cancel_futures=False)
        self._store.close()

    async def _append(self, key: str, token: str, cap: int, wait_s: float) -> bool:
        """Append to a list of leases, trying again for `wait_s` at its cap; returns whether it was appended."""
        loop = asyncio.get_running_loop()
        end, store = loop.time() + wait_s, self._store
        while True:
            if await loop.run_in_executor(self._threads, store.append, key, token, cap):
                return True
            if loop.time() >= end:
                return False
            await asyncio.sleep(random.uniform(*ADMISSION_RETRY_S))  # noqa: S311 - jitter, no secret

    def _has_room(self, lease: Lease) -> asyncio.Future[bool]:
        """Ask whether the lease may be kept; False without asking memcached if this process is at its own cap."""
        if self._local.locked():
            full: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            full.set_result(False)
            return full
        return asyncio.ensure_future(self._look_around(lease))

    async def _look_around(self, lease: Lease) -> bool:
        """Ask memcached whether the lease may be kept: the SET has room, and no server contends for its hot envelopes.

        Contended envelopes are left to the other server for YIELD_S after this term.
        """
        loop = asyncio.get_running_loop()
        marks = {_contended_key(self._hot_key(one)): one for one in lease.hot}
        room, contended = await loop.run_in_executor(
            self._threads, self._store.look, self._key, lease.token, self._config.cap, marks
        )
        now = loop.time()
        for envelope_id in [one for one, until in self._yielded.items() if until <= now]:
            del self._yielded[envelope_id]
        self._yielded.update(dict.fromkeys(contended, now + LEASE_TERM_S + YIELD_S))
        return room and not contended

    def _hot_key(self, envelope_id: int) -> str:
        return f"{self._key}:{envelope_id}"


def _contended_key(hot_key: str) -> str:
    return f"{hot_key}:wanted"


def _busy(cap: str) -> Unavailable:
    _refused.labels(cap).inc()
    return Unavailable("busy", "too many transactions at once; try again in a moment", retry_after_s=1.0)
