"""The turn of our own engine: registry → actor → group commit → Postgres, without HTTP and links.

The client calls the dispatcher directly, as the end of a link does: for the replies of one turn of the event loop it
sends as many new opens in the next. The money check reads the claim log.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from envelope.claim_log import ClaimLog
from envelope.outcomes import Outcome
from envelope.split import Split
from envelope.terms import Kind
from errors import HongbaoError
from loadtest.baselines.books import Money, Win
from loadtest.baselines.drive import Ask
from loadtest.bench.fill import draft
from loadtest.bench.oneset import OneSet
from loadtest.bench.workloads import Workload
from runtime import postgres
from setnode.actors.request import OUTCOMES
from setnode.service import Setnode
from wire.messages import Op
from wire.server import Caller

CREATE_CHUNK = 1_000
_OPEN, _OPENED = int(Op.OPEN), OUTCOMES.index(Outcome.OPENED)
_STORED = """
SELECT count(*) AS claims, coalesce(sum(amount_fen), 0)::bigint AS fen,
       count(*) FILTER (WHERE amount_fen < 1 OR kind <> 'open') AS wrong
FROM claim WHERE envelope_id = ANY($1)
"""
_OVERSOLD = """
SELECT count(*) FROM (
    SELECT 1 FROM claim WHERE envelope_id = ANY($1) GROUP BY envelope_id
    HAVING count(*) > $2 OR sum(amount_fen) > $3 OR (count(*) = $2) <> (sum(amount_fen) = $3)) AS over
"""
_INTENTS = """
SELECT count(*) FROM payout_batch CROSS JOIN unnest(envelope_ids) AS id WHERE batch_id > $1 AND id = ANY($2)
"""


class ClosedLoop(Caller):
    """A closed loop of opens at the dispatcher. A failure ends it; the answers received until then stay in `won`."""

    def __init__(self, node: Setnode, asks: Iterable[Ask], waiting: int, *, seconds: float) -> None:
        super().__init__("bench")
        self.won: list[tuple[int, int]] = []
        """Number of the ask, and the amount."""
        self.other: Counter[str] = Counter()
        self.asked: list[Ask] = []
        self.seconds = 0.0
        self._node = node
        self._line = iter(asks)
        self._waiting = waiting
        self._limit_s = seconds
        self._end = 0.0
        self._in_flight = 0
        self._over = False
        self._filling = False
        self._done = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Send opens until `asks` or `seconds` are used up; returns when every one is answered."""
        started = time.perf_counter()
        self._end = started + self._limit_s
        self._fill()
        await self._done.wait()
        self.seconds = time.perf_counter() - started

    @property
    def per_second(self) -> float:
        """Wins a second."""
        return len(self.won) / self.seconds

    @property
    def wins(self) -> list[Win]:
        """The answers that won, in the form of the baselines' money check."""
        return [(*self.asked[number], amount) for number, amount in self.won]

    def reply(self, number: int, *values: Any) -> None:
        """Take a reply (called by the dispatcher)."""
        if values[0] == _OPENED:
            self.won.append((number, values[1]))
        else:
            self.other[OUTCOMES[values[0]].value] += 1
        self._in_flight -= 1
        if not self._filling:
            self._fill_soon()

    def fail(self, number: int, error: BaseException) -> None:
        """Take a failure (called by the dispatcher); it ends the run."""
        del number
        self.other[getattr(error, "code", type(error).__name__)] += 1
        self._over = True
        self._in_flight -= 1
        if not self._filling:
            self._fill_soon()

    def _fill_soon(self) -> None:
        self._filling = True
        self._loop.call_soon(self._fill)

    def _fill(self) -> None:
        self._filling = True
        self._over = self._over or time.perf_counter() >= self._end
        while not self._over and (room := self._waiting - self._in_flight):
            few = list(islice(self._line, room))
            self._over = len(few) < room
            self._send(few)
        self._filling = False
        if self._over and not self._in_flight:
            self._done.set()

    def _send(self, few: Sequence[Ask]) -> None:
        first, handle = len(self.asked), self._node.dispatcher.handle
        self.asked += few
        self._in_flight += len(few)
        for number, (envelope_id, user) in enumerate(few, first):
            try:
                handle(self, number, _OPEN, [envelope_id, user, True, None])
            except HongbaoError as error:
                self.fail(number, error)


class HongbaoEngine:
    """Our engine, inside this process, as a contender."""

    def __init__(self, one: OneSet) -> None:
        self.one = one

    async def envelopes(self, workload: Workload) -> list[int]:
        """Make the workload's envelopes."""
        return await _make(self.one, workload)

    async def turn(self, workload: Workload) -> tuple[float, Money]:
        """Open what the workload says; returns opens a second and what the money check found."""
        envelopes = await self.envelopes(workload)
        connection = await postgres.connect(self.one.owner)
        try:
            last = await connection.fetchval("SELECT coalesce(max(batch_id), 0) FROM payout_batch")
            loop = ClosedLoop(self.one.node, workload.asks(envelopes), workload.waiting, seconds=workload.seconds)
            await loop.run()
            return loop.per_second, await _check(connection, loop, workload, envelopes, last)
        finally:
            await connection.close(timeout=5.0)


async def _check(connection: Any, loop: ClosedLoop, workload: Workload, envelopes: Sequence[int], last: int) -> Money:
    """Compare the answers with the claim log, and each claim with a payout intent."""
    row = await connection.fetchrow(_STORED, envelopes)
    intents = await connection.fetchval(_INTENTS, last, envelopes)
    oversold = await connection.fetchval(_OVERSOLD, envelopes, workload.shares, workload.total_fen)
    told_fen = sum(amount for _, amount in loop.won)
    off = abs(told_fen - row["fen"]) + abs(row["claims"] - intents) + row["wrong"] + sum(loop.other.values())
    lost = await lost_of(connection, loop.wins) if row["claims"] != len(loop.won) or off else 0
    return Money(len(loop.won), row["claims"], lost, oversold, off)


async def lost_of(connection: Any, wins: Sequence[Win]) -> int:
    """Count the answers that are not in the claim log, one by one."""
    envelopes = list({envelope for envelope, _, _ in wins})
    rows = await connection.fetch(
        "SELECT envelope_id, user_id, amount_fen FROM claim WHERE envelope_id = ANY($1)", envelopes
    )
    return len(set(wins) - {tuple(row) for row in rows})


async def _make(one: OneSet, workload: Workload) -> list[int]:
    """Create envelopes without the wallet, through the queue of creates; they are live and in memory."""
    headers = draft(
        one.today, workload.envelopes, workload.shares, one.tables.slots, one.node.clock.now_ms(),
        Kind.LUCKY, Split.DOUBLE_MEAN,
    )  # fmt: skip
    for at in range(0, len(headers), CREATE_CHUNK):
        chunk = headers[at : at + CREATE_CHUNK]
        await asyncio.gather(*(one.node.create_queue.insert(terms) for terms in chunk))
        for terms in chunk:
            one.node.registry.adopt(ClaimLog(terms))
    return [terms.envelope_id for terms in headers]
