"""The sweeper: undoes creates whose money is in escrow without an envelope.

It walks the wallet's funds in order, SWEEP_AFTER_S behind the present, and compares them with the headers here. For a
fund without a header it writes a header that is closed at once, which refunds everything. The header's unique key
decides between the sweeper and a retry of the create: exactly one of them succeeds (docs/decisions/0003).

What it must not do: pay back what was paid out. A database that was restored to an earlier instant lacks headers whose
shares were paid. So the wallet is asked first, and a fund of which it has paid anything is set apart; and more than
SWEEP_IN_A_ROW funds without a header, with none between them that has one, are no crashed creates: the sweeper stops
with an alarm and undoes nothing of that page, until an operator has looked (HONGBAO_SWEEP_IN_A_ROW;
docs/decisions/0030-what-is-set-apart.md).

A fund that can have no header is set apart in `fund_set_apart`, and the walk goes on behind it.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from runtime import logs, metrics, postgres
from runtime.clock import Clock, to_ms
from setnode.limits import SERVICE_DEADLINE_S, SWEEP_AFTER_S, SWEEP_IN_A_ROW, SWEEP_PAGE, SWEEP_ROUND_S
from setnode.services.undo import Compared, Fund, compare, set_apart, undo
from wire.wallet import WalletClient

_STANDING = "SELECT after, (SELECT count(*) FROM fund_set_apart) FROM fund_cursor"
_TRY_LOCK = "SELECT pg_try_advisory_lock(hashtext('hongbao_sweeper'))"
_ADVANCE = "UPDATE fund_cursor SET after = $1 WHERE after = $2 RETURNING true"
_UNLOCK = "SELECT pg_advisory_unlock(hashtext('hongbao_sweeper'))"

_log = logs.get("setnode")
_undone = metrics.counter("hongbao_creates_undone_total", "Creates that died half way and were refunded")
_behind = metrics.gauge("hongbao_sweeper_behind", "1 if the last round left funds that were old enough, else 0")
_stopped = metrics.gauge(
    "hongbao_sweeper_stopped", "1 if too many funds in a row have no envelope: an operator must look"
)
_apart = metrics.gauge("hongbao_sweeper_set_apart", "Funds passed without an envelope: an operator must look")


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
        in_a_row: int = SWEEP_IN_A_ROW,
    ) -> None:
        self._session = session
        self._wallet = wallet
        self._clock = clock
        self._server = server
        self._holds = holds
        self._after_s = after_s
        self._in_a_row = in_a_row
        self._round = asyncio.Lock()
        self.stopped = False
        """Whether the last round undid nothing because too many funds in a row have no header."""

    async def run_once(self) -> SweepResult:
        """Compare all funds older than `after_s`, or as many as SWEEP_ROUND_S allows; nothing if another server does.

        One round at a time. What is undone is durable, and is paid back like any closed envelope.
        """
        async with self._round:
            return await self._run_once()

    async def _run_once(self) -> SweepResult:
        locked = await self._session.run(_lock, SERVICE_DEADLINE_S)
        seen = undone = 0
        if locked is None:
            return SweepResult(seen, undone)
        after, apart = locked
        # Also where no fund is new: an operator may have settled what was set apart, or this process have just begun.
        _apart.set(apart)
        loop = asyncio.get_running_loop()
        over = loop.time() + SWEEP_ROUND_S
        in_a_row = 0
        self.stopped = False
        try:
            more = True
            while more and loop.time() < over:
                until_ms = to_ms(self._clock.now() - timedelta(seconds=self._after_s))
                funds = await self._wallet.funds(after, until_ms, SWEEP_PAGE)
                if not funds:
                    more = False
                    break
                now = self._clock.now()
                comparing = partial(compare, funds=funds, holds=self._holds, now=now)
                found = await self._session.run(comparing, SERVICE_DEADLINE_S)
                in_a_row, most = _runs(found, in_a_row)
                if most > self._in_a_row:
                    self._stop(found, most)
                    break
                found = await self._without_paid(found)
                settling = partial(self._settle, after=after, found=found, last=funds[-1][0])
                page = await self._session.run(settling, SERVICE_DEADLINE_S)
                seen, undone, after = seen + len(funds), undone + page.undone, page.passed
                if page.passed < funds[-1][0]:
                    break  # a fund must wait, or the cursor was set back: the next round starts at the cursor
                more = len(funds) == SWEEP_PAGE
            _behind.set(more)
            _stopped.set(self.stopped)
            return SweepResult(seen, undone)
        finally:
            # A lost connection releases its lock when the server notices the loss.
            if self._session.up:
                await self._session.run(_unlock, SERVICE_DEADLINE_S)

    async def _without_paid(self, found: Compared) -> Compared:
        """Set apart the missing of which the wallet has paid a share: a header is lost, not a create."""
        if not found.missing:
            return found
        paid = await self._wallet.paid_out([fund[1] for fund in found.missing])
        lost = [(fund, "the wallet has paid shares of it, and it has no header here") for fund in found.missing
                if fund[1] in paid]  # fmt: skip
        missing = [fund for fund in found.missing if fund[1] not in paid]
        return found._replace(missing=missing, apart=[*found.apart, *lost])

    async def _settle(self, connection: Any, after: int, found: Compared, last: int) -> _Page:
        """Undo the missing, keep those set apart, and move the cursor; it may be repeated after any failure.

        The cursor moves only if it still stands where this round found it: a move of a database may have set it back,
        so that these funds are compared again with the new topology.
        """
        undone = await self._undo(connection, found.missing) if found.missing else 0
        _apart.set(await set_apart(connection, found.apart))
        passed = _cursor_before(found.waiting) if found.waiting else last
        moved = await connection.fetchval(_ADVANCE, passed, after)
        return _Page(undone, passed if moved else after)

    async def _undo(self, connection: Any, funds: Sequence[Fund]) -> int:
        undone = await undo(connection, funds, self._clock.now(), self._server)
        _undone.inc(undone)
        return undone

    def _stop(self, found: Compared, most: int) -> None:
        self.stopped = True
        _log.critical(
            "the sweeper has stopped: funds in a row without an envelope; was this database restored?",
            in_a_row=most,
            limit=self._in_a_row,
            first=str(found.missing[0][1]),
        )


def _runs(found: Compared, before: int) -> tuple[int, int]:
    """Return how many funds in a row have no header at the end of the page, and at most in it; `before` came before."""
    run, most = before, before
    missing = {fund[0] for fund in found.missing}
    for fund_id in sorted(missing | {fund[0] for fund in found.standing}):
        run = run + 1 if fund_id in missing else 0
        most = max(most, run)
    return run, most


async def _lock(connection: Any) -> tuple[int, int] | None:
    """Take the SET's sweeper lock; returns the cursor and how many funds are set apart.

    None while another server holds the lock.
    """
    if not await connection.fetchval(_TRY_LOCK):
        return None
    after, apart = await connection.fetchrow(_STANDING)
    return int(after), int(apart)


async def _unlock(connection: Any) -> None:
    await connection.fetchval(_UNLOCK)


def _cursor_before(waiting: Sequence[Fund]) -> int:
    """Log the first fund that cannot be settled yet; returns the cursor from which it is compared again."""
    first = min(waiting)
    _log.error("money is in escrow, but the day has no tables here or a fence refuses it", envelope_id=str(first[1]))
    return first[0] - 1
