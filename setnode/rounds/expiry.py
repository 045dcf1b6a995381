"""Expiry: closes envelopes whose time is up and refunds exactly what is left.

The `due` table holds every envelope until it is final, so after any downtime the service simply goes on where the
oldest row stands. It walks over all that is due page by page, so what cannot be closed holds up nobody. Closing goes
through the envelope's actor like everything else: a late open and the refund cannot both take the last share.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from envelope.errors import InvariantBroken, Refused
from runtime import logs, metrics, postgres
from runtime.clock import Clock, from_ms
from setnode import queries
from setnode.actors.registry import Registry
from setnode.actors.request import Ask, LocalPeer, Request
from setnode.limits import SERVICE_PATIENCE_S
from setnode.rounds.parts import parts_of

_DUE = queries.read("due_envelopes")
_FORGET = queries.read("forget_final")

_log = logs.get("setnode")
_closed = metrics.counter("hongbao_expired_total", "Envelopes closed because their time was up")
_late = metrics.seconds("hongbao_expiry_late_seconds", "From an envelope's expiry to its closing")
_unclosable = metrics.gauge("hongbao_expiry_unclosable", "Envelopes past their time that the last walk could not close")
_START = (from_ms(0), 0)


@dataclass(frozen=True)
class ExpiryConfig:
    """`adopt_after_s`: an envelope this long overdue is closed by any server, its own seems to be gone."""

    interval_s: float = 0.4
    batch: int = 1000
    adopt_after_s: float = 5.0
    close_timeout_s: float = 5.0


@dataclass(frozen=True)
class ExpiryResult:
    """What one round did. `unclosable` are frozen, or have no header: an operator must look."""

    seen: int
    forgotten: int
    closed: int
    unclosable: int = 0


class Expiry:
    """`run_once` closes what is due and belongs to this server; `owns` says what does, `serves` what is on this SET.

    A row of `due` that is not, any more, is a copy that a move has left: the other SET has it, too.
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
    ) -> None:
        self._session = session
        self._registry = registry
        self._clock = clock
        self._owns = owns
        self._serves = serves
        self.config = config or ExpiryConfig()
        self._round = asyncio.Lock()
        self._after = _START
        self._given_up: set[int] = set()
        self._known: set[int] = set()

    async def run_once(self) -> ExpiryResult:
        """Close up to one batch of due envelopes, and forget those that are final already. One round at a time.

        The next round goes on behind this batch, and from the start once there are no more.
        """
        async with self._round:
            return await self._run_once()

    async def _run_once(self) -> ExpiryResult:
        now = self._clock.now()
        rows = await self._fetch(_DUE, now, self.config.batch, *self._after)
        ends = len(rows) < self.config.batch
        # Moved before anything can fail: a page that makes a round fail must not be all that is ever looked at.
        self._after = _START if ends else (rows[-1]["expires_at"], rows[-1]["envelope_id"])
        try:
            return await self._close_due(rows, now)
        finally:
            if ends:
                self._tell()

    async def _close_due(self, rows: Sequence[Any], now: datetime) -> ExpiryResult:
        adopted = now - timedelta(seconds=self.config.adopt_after_s)
        due = {
            row["envelope_id"]: row["expires_at"]
            for row in rows
            if (self._owns(row["envelope_id"]) or row["expires_at"] < adopted) and self._serves(row["envelope_id"])
        }
        if not due:
            return ExpiryResult(len(rows), 0, 0)
        forgotten = await self._forget(due, list(due))
        open_ids = [envelope_id for envelope_id in due if envelope_id not in forgotten]
        closed, unclosable = await self._close(open_ids)
        self._given_up |= unclosable
        await self._forget(due, closed)
        for envelope_id in closed:
            _late.observe(max(0.0, (self._clock.now() - due[envelope_id]).total_seconds()))
        _closed.inc(len(closed))
        return ExpiryResult(len(rows), len(forgotten), len(closed), len(unclosable))

    def _tell(self) -> None:
        """At the end of a walk: count those that could not be closed, and shout when there are more than before."""
        given_up, self._given_up = self._given_up, set()
        new = given_up - self._known
        self._known = given_up
        _unclosable.set(len(given_up))
        if new:
            some = [str(envelope_id) for envelope_id in sorted(new)[:10]]
            _log.error("past their time, and cannot be closed", new=len(new), all=len(given_up), envelope_ids=some)

    async def _forget(self, due: dict[int, datetime], envelope_ids: Sequence[int]) -> set[int]:
        if not envelope_ids:
            return set()
        forgotten: set[int] = set()
        for part in parts_of(envelope_ids):
            ids = [envelope_ids[position] for position in part.positions]
            rows = await self._fetch(_FORGET, ids, [due[one] for one in ids], part.slots, part.low, part.end)
            forgotten.update(row["envelope_id"] for row in rows)
        return forgotten

    async def _fetch(self, query: str, *args: Any) -> list[Any]:
        return list(
            await self._session.patiently(lambda connection: connection.fetch(query, *args), SERVICE_PATIENCE_S)
        )

    async def _close(self, envelope_ids: Sequence[int]) -> tuple[list[int], set[int]]:
        """Ask each envelope's actor to close it; returns those that are final now, and those that can never be."""
        loop = asyncio.get_running_loop()
        unclosable: set[int] = set()
        waiting: dict[int, asyncio.Future[bool]] = {envelope_id: loop.create_future() for envelope_id in envelope_ids}

        def told(envelope_id: int, reply: object) -> None:
            if isinstance(reply, InvariantBroken | Refused):
                unclosable.add(envelope_id)
            future = waiting[envelope_id]
            if not future.done():
                future.set_result(isinstance(reply, dict) and bool(reply.get("final")))

        peer = LocalPeer(told)
        for envelope_id in envelope_ids:
            self._registry.offer(
                envelope_id,
                Request(
                    Ask.EXPIRE, "", token_ok=True, password_mac=None, peer=peer, number=envelope_id, arrived=loop.time()
                ),
            )
        if waiting:
            await asyncio.wait(waiting.values(), timeout=self.config.close_timeout_s)
        closed = [envelope_id for envelope_id, future in waiting.items() if future.done() and future.result()]
        return closed, unclosable
