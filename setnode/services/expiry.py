"""Expiry: closes envelopes whose time is up, which refunds exactly what is left.

The `due` table holds every envelope until it is final, so after any downtime the service goes on at the oldest row. It
walks over all due rows page by page, so envelopes that cannot be closed do not hold up the others; full pages follow
each other without a pause, and the next is read while EXPIRY_PAGES are closed. An envelope is closed by its actor, like
every other change: a late open and the refund cannot both take the last share.

Each server closes those that it owns by the ring, so the servers of a SET share the work. It closes another server's
only if that one is not alive: a backlog alone is no reason, because two servers that close the same envelopes conflict.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from errors import InvariantBroken, Refused
from runtime import logs, metrics, postgres, sql
from runtime.clock import Clock, from_ms
from setnode.actors.registry import Registry
from setnode.actors.request import Action, LocalCaller, Request
from setnode.limits import (
    EXPIRY_ADOPT_S,
    EXPIRY_CLOSE_S,
    EXPIRY_EVERY_S,
    EXPIRY_PAGE,
    EXPIRY_PAGES,
    EXPIRY_ROUND_S,
    EXPIRY_SLICE,
    SERVER_SILENT_S,
    SERVICE_DEADLINE_S,
)
from setnode.partition_ranges import partition_ranges

_DUE = sql.read("setnode", "due_envelopes")
_FORGET = sql.read("setnode", "forget_final")
_FORGET_CLOSED = sql.read("setnode", "forget_closed")
_LIVING = sql.read("setnode", "living_servers")

_log = logs.get("setnode")
_closed = metrics.counter("hongbao_expired_total", "Envelopes closed because their time was up")
_late = metrics.seconds("hongbao_expiry_late_seconds", "From an envelope's expiry to its closing")
_unclosable = metrics.gauge("hongbao_expiry_unclosable", "Envelopes past their time that the last walk could not close")
_START = (from_ms(0), 0)


@dataclass(frozen=True)
class ExpiryConfig:
    """`page` is how many due rows are taken at once.

    After `adopt_after_s` any server closes an overdue envelope whose owner is not alive.
    """

    interval_s: float = EXPIRY_EVERY_S
    page: int = EXPIRY_PAGE
    adopt_after_s: float = EXPIRY_ADOPT_S
    close_timeout_s: float = EXPIRY_CLOSE_S


@dataclass(frozen=True)
class _Page:
    """Due rows, as read: `due` are those that this server closes, `final` those of them that were final and are gone.

    `is_last`: the walk over all due rows ends with it.
    """

    seen: int
    is_last: bool
    due: dict[int, datetime]
    final: set[int]

    @property
    def open_ids(self) -> list[int]:
        """The envelopes to close."""
        return [envelope_id for envelope_id in self.due if envelope_id not in self.final]


@dataclass(frozen=True)
class ExpiryResult:
    """What one round did: rows of `due` seen, rows deleted because their envelope was final, envelopes closed.

    `unclosable` are frozen envelopes, or rows without a header: an operator must look.
    """

    seen: int
    forgotten: int
    closed: int
    unclosable: int = 0


class Expiry:
    """Closes the due envelopes of one server: those it `owns`, and overdue ones whose `owner_of` is not alive.

    `serves` says whether an envelope is on this SET and may be written. A row of `due` for another SET's envelope is a
    copy that a move has left behind; the other SET has it as well.
    """

    def __init__(
        self,
        session: postgres.Session,
        registry: Registry,
        clock: Clock,
        owns: Callable[[int], bool],
        config: ExpiryConfig | None = None,
        *,
        serves: Callable[[int], bool] = lambda _: True,
        owner_of: Callable[[int], str] = lambda _: "",
    ) -> None:
        self._session = session
        self._registry = registry
        self._clock = clock
        self._owns = owns
        self._serves = serves
        self._owner_of = owner_of
        self.config = config or ExpiryConfig()
        self._round = asyncio.Lock()
        self._reading = asyncio.Lock()
        self._after = _START
        self._unclosable: set[int] = set()
        self._reported: set[int] = set()

    async def run_round(self) -> None:
        """Take one page after the other while they are full and have work for this server, EXPIRY_ROUND_S at most.

        A page of other servers' envelopes is followed by the usual pause: their backlog is theirs to close.
        """
        over = asyncio.get_running_loop().time() + EXPIRY_ROUND_S
        async with self._round:
            closing: deque[asyncio.Future[ExpiryResult]] = deque()
            try:
                while True:
                    page = await self._take_page()
                    closing.append(asyncio.ensure_future(self._close_page(page)))
                    if page.is_last or not page.due or asyncio.get_running_loop().time() >= over:
                        break
                    if len(closing) == EXPIRY_PAGES:
                        result = await closing.popleft()
                        if not result.forgotten + result.closed:
                            break
                while closing:
                    await closing.popleft()
            finally:
                for one in closing:
                    one.cancel()
                # Their errors are those of this one, or they were cancelled: the next walk takes their rows again.
                await asyncio.gather(*closing, return_exceptions=True)
            if page.is_last:
                self._report()

    async def run_once(self) -> ExpiryResult:
        """Close the due envelopes of one page, and delete the rows of those that are final. One round at a time.

        The next call takes the next page, and starts again after the last one. Repeating it is harmless.
        """
        async with self._round:
            page = await self._take_page()
            result = await self._close_page(page)
            if page.is_last:
                self._report()
            return result

    async def _take_page(self) -> _Page:
        """Read the next page; delete the rows of envelopes that are final."""
        now = self._clock.now()
        rows = await self._fetch(_DUE, now, self.config.page, *self._after)
        is_last = len(rows) < self.config.page
        # Moved before anything can fail: a page that fails must not be taken again and again.
        self._after = _START if is_last else (rows[-1]["expires_at"], rows[-1]["envelope_id"])
        due = await self._ours(rows, now)
        return _Page(len(rows), is_last, due, await self._forget(due, list(due)))

    async def _ours(self, rows: Sequence[Any], now: datetime) -> dict[int, datetime]:
        """Return the envelopes of a page that this server closes, with the instants at which they expired."""
        adopt_before = now - timedelta(seconds=self.config.adopt_after_s)
        due: dict[int, datetime] = {}
        overdue: dict[int, datetime] = {}
        for number, (envelope_id, expires_at) in enumerate(rows):
            if number % EXPIRY_SLICE == EXPIRY_SLICE - 1:
                await asyncio.sleep(0)
            if not self._serves(envelope_id):
                continue
            if self._owns(envelope_id):
                due[envelope_id] = expires_at
            elif expires_at < adopt_before:
                overdue[envelope_id] = expires_at
        if overdue:
            living = {row["server"] for row in await self._fetch(_LIVING, timedelta(seconds=SERVER_SILENT_S))}
            due.update((one, at) for one, at in overdue.items() if self._owner_of(one) not in living)
        return due

    async def _close_page(self, page: _Page) -> ExpiryResult:
        """Close the envelopes of a page, and delete their rows."""
        asleep = {envelope_id for envelope_id in page.open_ids if envelope_id not in self._registry}
        closed, unclosable = await self._close(page.open_ids)
        # Woken to be closed: kept, they would push envelopes that users open out of memory. A frozen one stays: it must
        # not be read again before FROZEN_S are over.
        self._registry.forget_idle(envelope_id for envelope_id in closed if envelope_id in asleep)
        self._unclosable |= unclosable
        if closed:
            # Durable, as their actors have said: no look at their claims is needed.
            await self._fetch(_FORGET_CLOSED, closed, [page.due[one] for one in closed])
        now = self._clock.now()
        for envelope_id in closed:
            _late.observe(max(0.0, (now - page.due[envelope_id]).total_seconds()))
        _closed.inc(len(closed))
        return ExpiryResult(page.seen, len(page.final), len(closed), len(unclosable))

    def _report(self) -> None:
        """At the end of a walk: publish how many envelopes could not be closed, and log new ones."""
        unclosable, self._unclosable = self._unclosable, set()
        new = unclosable - self._reported
        self._reported = unclosable
        _unclosable.set(len(unclosable))
        if new:
            some = [str(envelope_id) for envelope_id in sorted(new)[:10]]
            _log.error("past their time, and cannot be closed", new=len(new), all=len(unclosable), envelope_ids=some)

    async def _forget(self, due: dict[int, datetime], envelope_ids: Sequence[int]) -> set[int]:
        """Delete the rows of those envelopes that are final; returns these."""
        if not envelope_ids:
            return set()
        forgotten: set[int] = set()
        for part in partition_ranges(envelope_ids):
            ids = [envelope_ids[position] for position in part.positions]
            rows = await self._fetch(_FORGET, ids, [due[one] for one in ids], part.slots, part.low, part.end)
            forgotten.update(row["envelope_id"] for row in rows)
        return forgotten

    async def _fetch(self, query: str, *args: Any) -> list[Any]:
        # One statement at a time: the next page is read while the rows of the last are deleted.
        async with self._reading:
            return list(await self._session.run(lambda connection: connection.fetch(query, *args), SERVICE_DEADLINE_S))

    async def _close(self, envelope_ids: Sequence[int]) -> tuple[list[int], set[int]]:
        """Have the actors close their envelopes; returns those that are final now, and those that cannot be closed."""
        loop = asyncio.get_running_loop()
        closed: list[int] = []
        unclosable: set[int] = set()
        # One future for all replies: one for each envelope costs more than its closing.
        left, all_replied = len(envelope_ids), loop.create_future()

        def on_reply(envelope_id: int, reply: object) -> None:
            nonlocal left
            if isinstance(reply, dict) and reply.get("final"):
                closed.append(envelope_id)
            elif isinstance(reply, InvariantBroken | Refused):
                unclosable.add(envelope_id)
            left -= 1
            if not left and not all_replied.done():
                all_replied.set_result(None)

        caller = LocalCaller(on_reply)
        for number, envelope_id in enumerate(envelope_ids):
            if number % EXPIRY_SLICE == EXPIRY_SLICE - 1:
                await asyncio.sleep(0)
            self._registry.offer(
                envelope_id,
                Request(
                    Action.EXPIRE,
                    "",
                    token_ok=True,
                    password_mac=None,
                    caller=caller,
                    number=envelope_id,
                    arrived_at=loop.time(),
                ),
            )
        if envelope_ids:
            await asyncio.wait({all_replied}, timeout=self.config.close_timeout_s)
        # Copies: a reply that comes later belongs to the next walk.
        return closed.copy(), unclosable.copy()
