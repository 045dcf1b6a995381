"""The sweeper: undoes creates whose money is in escrow without an envelope.

It walks the wallet's funds in order, SWEEP_AFTER_S behind the present, and compares them with the headers here. For a
fund without a header it writes a header that is closed at once, which refunds everything. The header's unique key
decides between the sweeper and a retry of the create: exactly one of them succeeds (docs/decisions/0003).
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
from runtime import logs, metrics, postgres, sql
from runtime.clock import Clock, to_ms
from schema.day_tables import known_days
from setnode.commit.fences import split_by_fence
from setnode.limits import SERVICE_DEADLINE_S, SWEEP_AFTER_S, SWEEP_PAGE, SWEEP_ROUND_S
from sharding.ids import database_for, day_of
from wire.wallet import WalletClient

_UNDO = sql.read("setnode", "undo_creates")
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
    """What one round did: funds compared, creates undone."""

    funds: int
    undone: int


class _Page(NamedTuple):
    """What became of a page: creates undone, and the fund ID to which the cursor has moved."""

    undone: int
    passed: int


class Sweeper:
    """Compares the wallet's funds with this SET's headers, on one server of the SET at a time (advisory lock).

    `holds` says whether an envelope is on this SET.
    """

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
        """Compare all funds older than `after_s`, or as many as SWEEP_ROUND_S allows; nothing if another server does.

        One round at a time. What is undone is durable, and is paid back like any closed envelope.
        """
        async with self._round:
            return await self._run_once()

    async def _run_once(self) -> SweepResult:
        after = await self._session.run(_lock, SERVICE_DEADLINE_S)
        seen = undone = 0
        if after is None:
            return SweepResult(seen, undone)
        loop = asyncio.get_running_loop()
        over = loop.time() + SWEEP_ROUND_S
        try:
            more = True
            while more and loop.time() < over:
                until_ms = to_ms(self._clock.now() - timedelta(seconds=self._after_s))
                funds = await self._wallet.funds(after, until_ms, SWEEP_PAGE)
                if not funds:
                    more = False
                    break
                compare = partial(self._compare, after=after, funds=funds)
                page = await self._session.run(compare, SERVICE_DEADLINE_S)
                seen, undone, after = seen + len(funds), undone + page.undone, page.passed
                if page.passed < funds[-1][0]:
                    break  # a fund must wait, or the cursor was set back: the next round starts at the cursor
                more = len(funds) == SWEEP_PAGE
            _behind.set(more)
            return SweepResult(seen, undone)
        finally:
            # A lost connection releases its lock when the server notices the loss.
            if self._session.up:
                await self._session.run(_unlock, SERVICE_DEADLINE_S)

    async def _compare(self, connection: Any, after: int, funds: Sequence[Fund]) -> _Page:
        """Undo the creates of one page and move the cursor past it; it may be repeated after any failure.

        The cursor moves only if it still stands where this round found it: a move of a database may have set it back,
        so that these funds are compared again with the new topology.
        """
        days = await known_days(connection)
        ours = [fund for fund in funds if self._holds(fund[1])]
        # A day in the register is proven: each of its funds has a header, in whatever table or archive.
        proven = await read_register(connection, {day_of(fund[1]) for fund in ours} - days)
        ours = [fund for fund in ours if (day_of(fund[1]), database_for(fund[1])) not in proven]
        undone, refused = await self._undo(connection, [fund for fund in ours if day_of(fund[1]) in days])
        waiting = [*refused, *(fund for fund in ours if day_of(fund[1]) not in days)]
        passed = _cursor_before(waiting) if waiting else funds[-1][0]
        moved = await connection.fetchval(_ADVANCE, passed, after)
        return _Page(undone, passed if moved else after)

    async def _undo(self, connection: Any, funds: Sequence[Fund]) -> tuple[int, list[Fund]]:
        """Write closed headers where there are none; returns how many, and the funds that a fence refused; durable."""
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
            parts = split_by_fence(funds, error, lambda fund: fund[1])
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
            _log.warning(
                "create undone: its money was in escrow without an envelope", envelope_id=str(row["envelope_id"])
            )
        _undone.inc(len(rows))
        return len(rows), []


async def _lock(connection: Any) -> int | None:
    """Take the SET's sweeper lock; returns the cursor, None while another server holds the lock."""
    if not await connection.fetchval(_TRY_LOCK):
        return None
    return int(await connection.fetchval("SELECT after FROM fund_cursor"))


async def _unlock(connection: Any) -> None:
    await connection.fetchval(_UNLOCK)


def _cursor_before(waiting: Sequence[Fund]) -> int:
    """Log the first fund that cannot be settled yet; returns the cursor from which it is compared again."""
    first = min(waiting)
    _log.error("money is in escrow, but the day has no tables here or a fence refuses it", envelope_id=str(first[1]))
    return first[0] - 1
