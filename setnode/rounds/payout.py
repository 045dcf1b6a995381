"""Payouts: every committed claim is credited in the wallet, afterwards, in batches, until that is final.

The intent is the `payout_batch` row written with the claims. The server that committed it pays from memory; what
does not fit there, or was left by a dead server, is read back. A row is deleted once every order of it is PAID or
stands in `payout_stuck` for an operator. Order numbers are derived from the claim, so paying twice is impossible
however often it is tried.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import chain
from typing import Any

from envelope.errors import HongbaoError, Refused
from runtime import logs, metrics, postgres
from runtime.clock import Clock
from setnode import queries
from setnode.actors.batch import ClaimBatch, Row
from setnode.limits import (
    ADOPT_AFTER_S,
    PAY_ATTEMPTS,
    PAY_GATHER_S,
    PAY_HELPERS,
    PAY_QUEUE,
    PAY_WORKERS,
    SERVICE_PATIENCE_S,
)
from setnode.rounds.bundles import Bundle, Line, Unanswered
from setnode.rounds.parts import parts_of
from wire.messages import Pay
from wire.wallet import PAID, Order, Result, WalletClient

_PICK = queries.read("pick_payouts")
_READ = queries.read("read_payouts")
_CLAIMS = queries.read("read_claims")
_STUCK = "SELECT envelope_id, seq FROM payout_stuck"
_FINISH = queries.read("finish_payouts")
READ_EVERY_S = 2.0
READ_BATCHES = 200
READ_UNANSWERED = 20
"""Batches let go without an answer that are read back at once, in full: what was paid of them is asked again."""
AWAY_PAUSE_S = 2.0
"""Longest pause while the wallet does not answer at all."""
AWAY = frozenset({"peer_down", "outcome_unknown"})
"""Nobody has answered. All other errors are answers: of a wallet that has too much to do, or whose database is away."""

_log = logs.get("setnode")
_paid = metrics.counter("hongbao_payouts_total", "Orders by result", ("result",))
_lag = metrics.seconds("hongbao_payout_lag_seconds", "From the commit of a claim to its credit")
_stuck = metrics.counter("hongbao_payouts_stuck_total", "Orders handed to an operator")


class Payouts:
    """Pays bundles with a few workers; `committed` is called by the claim lane after every commit.

    What this SET does not hold any more is forgotten: the move has given its intents to the SET that does.
    """

    def __init__(
        self,
        wallet: WalletClient,
        session: postgres.Session,
        clock: Clock,
        server: str,
        holds: Callable[[int], bool] = lambda _: True,
    ) -> None:
        self._wallet = wallet
        self._session = session
        self._clock = clock
        self._server = server
        self._holds = holds
        self._new = Line()
        self._unanswered = Unanswered()
        self._held: set[int] = set()
        self.unpaid_fen = 0
        """Claimed here and not credited yet, as far as this process holds it."""
        self.stuck_fen = 0
        """Claimed in this SET and waiting for an operator."""
        self._finished: list[Bundle] = []
        self._finishing = asyncio.Lock()
        self._answers = asyncio.Event()
        """Lowered when the wallet is found away, raised by the first call that it answers."""
        self._overflow = True  # at start there may be rows of an earlier life

    @property
    def held(self) -> int:
        """Bundles in memory, not final yet."""
        return len(self._held)

    @property
    def _room(self) -> int:
        """How many more new bundles memory takes."""
        return PAY_QUEUE - (len(self._held) - len(self._unanswered))

    def committed(self, batch_id: int, batch: ClaimBatch, refused: frozenset[int]) -> None:
        """Take the payout intents of a batch that has just become durable."""
        if self._room <= 0:
            self._overflow = True
            return
        rows, receivers = batch.claims, batch.receivers
        if refused:
            written = [one for one in zip(rows, receivers, strict=True) if one[0][0] not in refused]
            rows, receivers = [row for row, _ in written], [receiver for _, receiver in written]
        bundle = Bundle(batch_id, rows, receivers, time.monotonic())
        self._hold(bundle)
        self._new.put(bundle)

    async def run(self) -> None:
        """Pay until cancelled; those without an answer have a worker of their own, however long the wallet takes."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(PAY_WORKERS):
                tasks.create_task(self._work(self._new, self._new.wanted))
            for _ in range(PAY_HELPERS):
                tasks.create_task(self._work(self._new, self._new.full))
            tasks.create_task(self._work(self._unanswered, self._unanswered.wanted))

    async def read_back(self) -> int:
        """Take in rows this process does not hold: its own that overflowed, others' that were left lying.

        First those never tried here, then those let go without an answer whose time has come.
        """
        limit = max(0, min(self._room, READ_BATCHES))
        again = self._unanswered.due(READ_UNANSWERED)
        if not limit and not again:
            return 0
        left_before = self._clock.now() - timedelta(seconds=ADOPT_AFTER_S)
        # Lowered before the first await: a batch that overflows meanwhile raises it again.
        own, self._overflow = self._overflow, False
        try:
            async with self._finishing:
                args = (self._server, left_before, [*self._held, *self._unanswered.put_off], limit, own)
                found = await self._session.patiently(
                    lambda connection: _look(connection, again, *args), SERVICE_PATIENCE_S
                )
                self.stuck_fen, picked, rows = found
        except BaseException:
            self._overflow = True
            raise
        left: dict[int, tuple[list[Row], list[str]]] = {}
        for batch_id, row in rows:
            claims, receivers = left.setdefault(batch_id, ([], []))
            claims.append((row["envelope_id"], row["seq"], 0, "", row["user_id"], row["amount_fen"]))
            receivers.append(row["receiver"])
        since = time.monotonic()
        bundles = {batch_id: Bundle(batch_id, *found, since) for batch_id, found in left.items()}
        self._overflow |= picked >= limit
        taken = {batch_id: bundle for batch_id, bundle in bundles.items() if batch_id not in self._held}
        for batch_id, bundle in taken.items():
            self._hold(bundle)
            if batch_id not in again:
                self._new.put(bundle)
        for batch_id in again:
            self._unanswered.take_back(batch_id, taken.get(batch_id))
        return len(taken)

    def _hold(self, bundle: Bundle) -> None:
        self._held.add(bundle.batch_id)
        self.unpaid_fen += bundle.fen

    async def _work(self, line: Line, signal: asyncio.Event) -> None:
        failures, paid_at = 0, 0.0
        while True:
            await signal.wait()
            if not signal.is_set():
                continue  # all who wait are woken; another one was faster
            if not line.full.is_set() and time.monotonic() - paid_at < PAY_GATHER_S:
                await asyncio.sleep(PAY_GATHER_S)
            bundles = line.take()
            paid_at = time.monotonic()
            if bundles and (error := await self._pay(bundles, line)):
                failures += 1
                await self._pause(failures, error)
                continue
            failures = 0
            try:
                await self._finish()
            except Exception as error:  # noqa: BLE001 - the rows stay; the next round deletes them
                _log.warning("payouts not marked yet", error=f"{type(error).__name__}: {error}")
                await postgres.pause(3)

    async def _pause(self, failures: int, error: HongbaoError) -> None:
        """Leave the wallet alone for a while. If it is away, the first of all workers whom it pays ends it for all.

        Else those who had met it away would sleep on beside a backlog, each for up to AWAY_PAUSE_S. Whoever was
        answered with an error keeps to his own pause: that others are paid is no sign that he will be.
        """
        pause_s = postgres.backoff_s(failures, most_s=AWAY_PAUSE_S)
        if error.code not in AWAY:
            await asyncio.sleep(pause_s)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._answers.wait()

    async def _pay(self, bundles: Sequence[Bundle], line: Line) -> HongbaoError | None:
        """Send the orders; returns why there was no answer at all, which costs no order an attempt."""
        bundles = self._forget_moved(bundles)
        if not bundles:
            return None
        orders = list(chain.from_iterable(bundle.orders for bundle in bundles))
        try:
            results = await self._wallet.pay(orders)
        except Refused as refusal:
            return await self._pay_apart(bundles, refusal, line)
        except HongbaoError as error:
            _log.warning("wallet away", error=error.detail, orders=len(orders))
            line.put_back(bundles)
            if error.code in AWAY:
                self._answers.clear()
            return error
        self._answers.set()
        at = 0
        for bundle in bundles:
            size = len(bundle)
            self._judge(bundle, results[at : at + size])
            at += size
        return None

    def _forget_moved(self, bundles: Sequence[Bundle]) -> list[Bundle]:
        """Return the bundles that have orders of ours; of the others nothing is left to do but to delete the row."""
        holds, left = self._holds, []
        for bundle in bundles:
            if all(map(holds, bundle.envelopes)):
                left.append(bundle)
                continue
            before = bundle.fen
            bundle.keep(line for line in bundle.lines() if holds(line[0].envelope_id))
            self.unpaid_fen -= before - bundle.fen
            if len(bundle):
                left.append(bundle)
            else:
                self._end(bundle)
        return left

    def _end(self, bundle: Bundle) -> None:
        self._unanswered.forget(bundle)
        self._finished.append(bundle)
        self._new.wanted.set()

    async def _pay_apart(self, bundles: Sequence[Bundle], refusal: Refused, line: Line) -> HongbaoError | None:
        """Find the bundle that the wallet cannot even read; its orders go the way of those it has no answer for."""
        if len(bundles) > 1:
            errors = [await self._pay([bundle], line) for bundle in bundles]
            return next(filter(None, errors), None)
        self._judge(bundles[0], [(Pay.UNKNOWN, refusal.detail)] * len(bundles[0]))
        return None

    def _judge(self, bundle: Bundle, results: Sequence[Result]) -> None:
        """Keep of a bundle what is not final, for a later try under the same order numbers."""
        paid, left = results.count(PAID), self._not_final(bundle, results)
        _paid.labels("paid").inc(paid)
        if paid:
            _lag.observe(time.monotonic() - bundle.since)
        if not left:
            self._end(bundle)
            return
        bundle.keep(left)
        bundle.attempts += 1
        _paid.labels("unknown").inc(len(left))
        if not self._unanswered.keep(bundle):
            self._held.discard(bundle.batch_id)
            self.unpaid_fen -= bundle.fen

    def _not_final(self, bundle: Bundle, results: Sequence[Result]) -> list[tuple[Order, int]]:
        """Return the orders to be tried again, and note the others as paid or as stuck."""
        if results.count(PAID) == len(bundle):  # nearly always
            self.unpaid_fen -= bundle.fen
            return []
        left: list[tuple[Order, int]] = []
        for (order, seq), (status, reason) in zip(bundle.lines(), results, strict=True):
            given_up = status is Pay.UNKNOWN and bundle.attempts >= PAY_ATTEMPTS
            if status is Pay.UNKNOWN and not given_up:
                left.append((order, seq))
                continue
            self.unpaid_fen -= order.amount_fen
            if status is not Pay.PAID:
                bundle.stuck.append((order.envelope_id, seq, (reason or "no answer")[:200]))
                _log.error("payout stuck", order_no=order.order_no, reason=reason, envelope_id=str(order.envelope_id))
        return left

    async def _finish(self) -> None:
        """Delete the rows of all finished bundles, and write down what is stuck, in one transaction."""
        if not self._finished:
            return
        async with self._finishing:
            bundles, self._finished = self._finished, []
            if not bundles:
                return
            # Asked again: the answer of the wallet may be older than the move.
            stuck = [(*one, bundle.attempts + 1) for bundle in bundles for one in bundle.stuck if self._holds(one[0])]
            try:
                columns = ([one[number] for one in stuck] for number in range(4))
                args = ([bundle.batch_id for bundle in bundles], *columns, self._clock.now())
                await self._session.patiently(lambda connection: connection.execute(_FINISH, *args), SERVICE_PATIENCE_S)
            except BaseException:
                self._finished.extend(bundles)
                self._new.wanted.set()
                raise
        _stuck.inc(len(stuck))
        self._held.difference_update(bundle.batch_id for bundle in bundles)


async def _look(connection: Any, again: Sequence[int], *args: Any) -> tuple[int, int, list[tuple[int, Any]]]:
    """Return what is stuck, in fen, how many intents were picked, and (batch, claim) of these and those in `again`."""
    stuck = await _claims_of(connection, await connection.fetch(_STUCK))
    picked = await connection.fetch(_PICK, *args)
    batch_ids = [*(row["batch_id"] for row in picked), *again]
    named = await connection.fetch(_READ, batch_ids) if batch_ids else []
    claims = [(row["batch_id"], claim) for row, claim in await _claims_of(connection, named)]
    return sum(claim["amount_fen"] for _, claim in stuck), len(picked), claims


async def _claims_of(connection: Any, named: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return (row of `named`, its claim) of those whose claim stands, in the order of `named` (envelope and seq)."""
    found: list[tuple[int, Any]] = []
    for part in parts_of(row["envelope_id"] for row in named):
        rows = [named[position] for position in part.positions]
        columns = [row["envelope_id"] for row in rows], [row["seq"] for row in rows]
        claims = await connection.fetch(_CLAIMS, *columns, part.slots, part.low, part.end)
        found += [(part.positions[claim["n"] - 1], claim) for claim in claims]
    return [(named[position], claim) for position, claim in sorted(found, key=lambda one: one[0])]
