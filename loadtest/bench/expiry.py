"""Whether a SET closes envelopes as fast as it creates them.

Question: a day after a peak of creates everything that was not sold out falls due at the rate at which it was created;
are refunds late then? Workload: creates through the dispatcher, saturated, with wallet (creates a second); then all of
them are due, none is in memory, and one server closes them (closings a second, from the first to the last, payout
intents included). Both have the machine to themselves, rounds in turn.

Sketch: a closing reads a header, writes a claim, deletes a row of `due`; a create inserts a header, a row of `due`, and
costs two round trips to the wallet and its three rows. So closings should not be slower.
"""

import asyncio
import secrets
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from errors import InvariantBroken, Unavailable
from loadtest.bench.figures import Bench, Figures, Row, Section
from loadtest.bench.oneset import ROOT, OneSet, one_set
from loadtest.drain import drain_payouts
from runtime import postgres
from sharding.ids import candidate_ids, first_id_at
from sharding.slots import Layout, place_for
from wire.keys import OPERATOR, root_key
from wire.link import Link
from wire.messages import Op
from wire.orders import create_key
from wire.server import Caller
from wire.wallet import WalletClient

SHARES, TOTAL_FEN, EXPIRES_IN_S = 5, 1_000, 1
KEY = b"bench expiry slot key"
PATIENCE_S = 120.0
LOOK_S = 0.005
EMPTY_LOOK_S = 0.02
"""Between two looks whether anything is due, which walk past the rows that were deleted."""


@dataclass(frozen=True)
class Size:
    """Envelopes of a round; creates in flight at once."""

    envelopes: int = 40_000
    window: int = 2_000
    rounds: int = 3


QUICK = Size(20_000, 2_000, 2)
TINY = Size(40, 20, 1)


class _Creates(Caller):
    """Frees a place of the window with every answer, and keeps failures."""

    def __init__(self, window: int) -> None:
        super().__init__("bench")
        self.free = asyncio.Semaphore(window)
        self.failed: list[BaseException] = []

    def reply(self, number: int, *values: Any) -> None:
        """Free a place."""
        del number, values
        self.free.release()

    def fail(self, number: int, error: BaseException) -> None:
        """Free a place and keep the failure."""
        del number
        self.failed.append(error)
        self.free.release()


async def measure(bench: Bench, size: Size) -> Figures:
    """Create and close in turn."""
    rounds = []
    async with one_set(await asyncio.to_thread(bench.scratch, "expiry"), wallet=True) as one:
        for number in range(size.rounds):
            bench.say(f"round {number + 1}")
            rounds.append(await _round(one, size, number))
        await drain_payouts([one.owner])
        refunded = await one.wallet_scalar("SELECT coalesce(sum(amount_fen), 0)::bigint FROM transfer WHERE kind = 3")
    expected = size.rounds * size.envelopes * TOTAL_FEN
    bench.audit("expiry", holds=refunded == expected, unreconciled_fen=expected - refunded)
    names = ("creates_per_second", "closings_per_second")
    return {"rounds": rounds, **{name: statistics.median(one[name] for one in rounds) for name in names}}


async def _round(one: OneSet, size: Size, number: int) -> Figures:
    await _deposit(one, size.envelopes * TOTAL_FEN)
    expiry = one.node.expiry
    # No round of expiry while envelopes are created: the second of their life would be over before the last is made.
    async with expiry._round:  # noqa: SLF001 - the benchmark holds the service back as a test would
        creates = await _create(one, size, number)
        await drain_payouts([one.owner])
        await asyncio.sleep(EXPIRES_IN_S)
        # As a day later, when none of them is in memory.
        one.node.registry.invalidate()
        await one.tidy()
    closings = await _close(one, size.envelopes)
    return {"creates_per_second": creates, "closings_per_second": closings}


async def _deposit(one: OneSet, fen: int) -> None:
    link = Link("wallet", one.node.settings.wallet_url, key=root_key(ROOT, OPERATOR))
    keeping = asyncio.ensure_future(link.maintain())
    try:
        while not link.up:
            await asyncio.sleep(LOOK_S)
        await WalletClient(link).deposit(f"D{secrets.token_hex(8)}", "sender", fen)
    finally:
        keeping.cancel()
        await asyncio.wait({keeping})


async def _create(one: OneSet, size: Size, number: int) -> float:
    """Create all envelopes, `window` in flight; returns how many a second."""
    caller = _Creates(size.window)
    free = caller.free
    terms = {
        "kind": "lucky", "split": "double_mean", "total_fen": TOTAL_FEN, "count": SHARES, "greeting": "",
        "expires_in_s": EXPIRES_IN_S,
    }  # fmt: skip
    layout = Layout(one.tables.slots)
    started = time.perf_counter()
    for each in range(size.envelopes):
        await free.acquire()
        key = f"{number}-{each}"
        ids = candidate_ids(first_id_at(one.node.clock.now()), *place_for("sender", key, KEY, layout), 4)
        args = ["sender", create_key("sender", key), "bench", ids, terms]
        one.node.dispatcher.handle(caller, each, Op.CREATE, args)
    for _ in range(size.window):
        await free.acquire()
    seconds = time.perf_counter() - started
    if caller.failed:
        raise InvariantBroken("every_create_stands", f"{len(caller.failed)} creates failed: {caller.failed[0]}")
    return size.envelopes / seconds


async def _close(one: OneSet, envelopes: int) -> float:
    """Wait until nothing is due; returns how many envelopes were closed a second."""
    # One connection for all looks: a new one for each would take a third of the machine from what is measured.
    connection = await postgres.connect(one.owner)
    started = time.perf_counter()
    try:
        async with asyncio.timeout(PATIENCE_S):
            while await connection.fetchval("SELECT EXISTS (SELECT FROM due)"):
                await asyncio.sleep(EMPTY_LOOK_S)
        return envelopes / (time.perf_counter() - started)
    except TimeoutError:
        raise Unavailable("not_closed", f"{envelopes} envelopes are not closed after {PATIENCE_S:.0f} s") from None
    finally:
        await connection.close()


async def _measure(bench: Bench) -> Figures:
    return await measure(bench, QUICK if bench.quick else Size())


def _rows(figures: Figures) -> Iterable[Row]:
    ratio = figures["closings_per_second"] / figures["creates_per_second"]
    yield Row("creates of one server", f"{figures['creates_per_second']:,.0f} creates/s", "with the wallet")
    yield Row("closings of one server", f"{figures['closings_per_second']:,.0f} closings/s", f"{ratio:.2f} of creates")


SECTION: Final = Section("expiry", "envelopes closed as fast as they are created", _measure, _rows)
