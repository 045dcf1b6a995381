"""The sweeper: undoes creates that paid in and then died.

It walks the wallet's funds in order, a while behind the present, and compares them with the headers here. For a fund
without a header it writes one that is closed at once, refunding everything; the header's unique key decides
between the sweeper and a retry of the create, so it is one or the other and never both.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from archive.register import read_register
from envelope.split import SPLIT_VERSION
from runtime import logs, metrics, postgres
from runtime.clock import Clock, to_ms
from schema.day_tables import known_days
from setnode import queries
from setnode.commit.fences import parted
from setnode.limits import SERVICE_PATIENCE_S, SWEEP_AFTER_S
from sharding.ids import day_of, slot_of
from sharding.slots import database_of
from wire.wallet import WalletClient

_UNDO = queries.read("undo_creates")
_TRY_LOCK = "SELECT pg_try_advisory_lock(hashtext('hongbao_sweeper'))"
_ADVANCE = "UPDATE fund_cursor SET after = $1 WHERE after = $2 RETURNING true"
_UNLOCK = "SELECT pg_advisory_unlock(hashtext('hongbao_sweeper'))"

_log = logs.get("setnode")
_undone = metrics.counter("hongbao_creates_undone_total", "Creates that died half way and were refunded")
_behind = metrics.gauge("hongbao_sweeper_behind", "1 if the last round left funds that were old enough, else 0")

Fund = tuple[int, int, str, int]
"""Fund ID, envelope ID, sender, total in fen."""


@dataclass(frozen=True)
class SweepResult:
    """What one round saw."""

    funds: int
    undone: int


class _Page(NamedTuple):
    undone: int
    passed: int


class Sweeper:
    """`run_once` compares funds page by page; one server of the SET at a time does it (advisory lock)."""

    PAGE = 500
    ROUND_S = 15.0
    """A round ends after this long, even if it has not caught up: another server may be the SET's sweeper next."""

    def __init__(
        self,
        session: postgres.Session,
        wallet: WalletClient,
        clock: Clock,
        server: str,
        holds: Callable[[int], bool],
        *,
        after_s: float = SWEEP_AFTER_S,
    ) -> None:
        self._session = session
        self._wallet = wallet
        self._clock = clock
        self._server = server
        self._holds = holds
        self._after_s = after_s
        self._round = asyncio.Lock()

    async def run_once(self) -> SweepResult:
        """Compare all funds that are older than `after_s`, or as many as a round has time for. One round at a time."""
        async with self._round:
            return await self._run_once()

    async def _run_once(self) -> SweepResult:
        after = await self._session.patiently(_lock, SERVICE_PATIENCE_S)
        seen = undone = 0
        if after is None:
            return SweepResult(seen, undone)
        loop = asyncio.get_running_loop()
        over = loop.time() + self.ROUND_S
        try:
            more = True
            while more and loop.time() < over:
                until_ms = to_ms(self._clock.now() - timedelta(seconds=self._after_s))
                funds = await self._wallet.funds(after, until_ms, self.PAGE)
                if not funds:
                    more = False
                    break
                compare = partial(self._compare, after=after, funds=funds)
                page = await self._session.patiently(compare, SERVICE_PATIENCE_S)
                seen, undone, after = seen + len(funds), undone + page.undone, page.passed
                if page.passed < funds[-1][0]:
                    break
                more = len(funds) == self.PAGE
            _behind.set(more)
            return SweepResult(seen, undone)
        finally:
            # A lost connection has lost its lock with it, or will when the server notices.
            if self._session.up:
                await self._session.patiently(_unlock, SERVICE_PATIENCE_S)

    async def _compare(self, connection: Any, after: int, funds: Sequence[Fund]) -> _Page:
        """Undo those without a header and move the cursor; a part of it that is durable is found done next time.

        The cursor moves only from where this round found it: a move that has turned it back meanwhile wants these funds
        looked at again, by the topology that its servers know now.
        """
        days = await known_days(connection)
        ours = [fund for fund in funds if self._holds(fund[1])]
        # A day in the register was proven: each of its funds has its header, wherever that lies by now.
        proven = await read_register(connection, {day_of(fund[1]) for fund in ours} - days)
        ours = [fund for fund in ours if (day_of(fund[1]), database_of(slot_of(fund[1]))) not in proven]
        undone, refused = await self._undo(connection, [fund for fund in ours if day_of(fund[1]) in days])
        waiting = [*refused, *(fund for fund in ours if day_of(fund[1]) not in days)]
        passed = _before(waiting) if waiting else funds[-1][0]
        moved = await connection.fetchval(_ADVANCE, passed, after)
        return _Page(undone, passed if moved else after)

    async def _undo(self, connection: Any, funds: Sequence[Fund]) -> tuple[int, list[Fund]]:
        """Write headers, closed at once, where there are none; returns how many, and those that a fence keeps out."""
        if not funds:
            return 0, []
        try:
            rows = await connection.fetch(
                _UNDO,
                [envelope_id for _, envelope_id, _, _ in funds],
                [user for _, _, user, _ in funds],
                [total_fen for *_, total_fen in funds],
                [secrets.token_hex(32) for _ in funds],
                self._clock.now(),
                self._server,
                SPLIT_VERSION,
            )
        except Exception as error:
            parts = parted(funds, error, lambda fund: fund[1])
            if parts is None:
                raise
            if len(parts) == 1:
                return 0, list(funds)
            undone, refused = 0, list[Fund]()
            for part in parts:
                more, left = await self._undo(connection, part)
                undone, refused = undone + more, refused + left
            return undone, refused
        for row in rows:
            _log.warning("create undone: it paid in and never came to life", envelope_id=str(row["envelope_id"]))
        _undone.inc(len(rows))
        return len(rows), []


async def _lock(connection: Any) -> int | None:
    """Become the SET's sweeper; returns the cursor, None while another server is it."""
    if not await connection.fetchval(_TRY_LOCK):
        return None
    return int(await connection.fetchval("SELECT after FROM fund_cursor"))


async def _unlock(connection: Any) -> None:
    await connection.fetchval(_UNLOCK)


def _before(waiting: Sequence[Fund]) -> int:
    """Return the fund before the first that cannot be settled yet: it is looked at again, never skipped."""
    first = min(waiting)
    _log.error("paid in, but its day has no tables here, or a fence", envelope_id=str(first[1]))
    return first[0] - 1
