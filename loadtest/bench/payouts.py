"""Whether the wallet pays as fast as people open.

Question: does a backlog of claims drain as fast as it grew? Workload: envelopes whose money is in escrow; the wallet is
stopped, all shares are opened with the SET saturated (opens a second, committed with their payout intents), the wallet
is started again, and the rest is timed from the first credit until every intent is paid and deleted. Opens have the
machine for setnode and Postgres alone, credits for setnode, wallet and both Postgres; rounds in turn.

Sketch: a credit is a row with two index entries, two balances moved, an order checked and sent as msgpack twice; in
batches of thousands 20 µs of the wallet's Postgres, 10 of the wallet, 5 of the setnode; the first and the others can
overlap on two cores. An open is 10 µs of Postgres and 10 of the setnode, which overlap too.
"""

import asyncio
import secrets
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from envelope.claim_log import ClaimLog
from envelope.header_hash import header_hash
from errors import InvariantBroken, Unavailable
from loadtest.bench import fill, pictures
from loadtest.bench.cputime import used_s
from loadtest.bench.figures import Bench, Figures, Row, Section
from loadtest.bench.oneset import ROOT, OneSet, fire, one_set, round_robin
from loadtest.drain import drain_payouts
from wire.keys import OPERATOR, root_key
from wire.link import Link
from wire.wallet import WalletClient

DRAIN_S = 120.0
LOOK_S = 0.002


@dataclass(frozen=True)
class Size:
    """Envelopes and shares of a round. As many users as shares: every one is paid by every envelope."""

    envelopes: int = 5_000
    shares: int = 20
    rounds: int = 5


QUICK = Size(5_000, 20, 3)
TINY = Size(20, 5, 1)


async def measure(bench: Bench, size: Size) -> Figures:
    """Open and pay in turn."""
    rounds = []
    async with one_set(await asyncio.to_thread(bench.scratch, "payouts"), wallet=True) as one:
        for number in range(size.rounds):
            bench.say(f"round {number + 1}")
            rounds.append(await _round(one, size))
        await drain_payouts([one.owner])
        paid = await _paid(one)
        claimed = await one.scalar("SELECT coalesce(sum(amount_fen), 0)::bigint FROM claim")
    bench.audit("payouts", holds=paid == claimed, unreconciled_fen=claimed - paid)
    return {
        "rounds": rounds,
        "opens_per_second": statistics.median(one["opens_per_second"] for one in rounds),
        "credits_per_second": statistics.median(one["credits_per_second"] for one in rounds),
        "cpu_us_per_credit": {
            name: statistics.median(one["cpu_us_per_credit"][name] for one in rounds)
            for name in rounds[0]["cpu_us_per_credit"]
        },
    }


async def _round(one: OneSet, size: Size) -> Figures:
    ids = await _funded(one, size)
    await drain_payouts([one.owner])
    service = one.wallet
    if service is None:
        raise InvariantBroken("wallet_there", "the SET of this section was started without a wallet")
    await service.stop()
    opens = await fire(one.node, round_robin(ids, size.shares))
    await service.start()
    credits_, cpu_us = await _drain(one, size.envelopes * size.shares)
    return {"opens_per_second": opens, "credits_per_second": credits_, "cpu_us_per_credit": cpu_us}


async def _drain(one: OneSet, claims: int) -> tuple[float, dict[str, float]]:
    """Return credits a second from the first batch paid to the last, and CPU µs per credit by component.

    The first batch is not counted: it begins after reconnects and pauses, which are not what is measured.
    """
    payouts = one.node.payouts
    if payouts.unpaid_fen != claims * fill.SHARE_FEN:
        raise InvariantBroken("all_unpaid", f"{payouts.unpaid_fen} fen are unpaid where {claims} claims are")
    try:
        async with asyncio.timeout(DRAIN_S):
            while payouts.unpaid_fen == claims * fill.SHARE_FEN:
                await asyncio.sleep(LOOK_S)
            started, left, before = time.perf_counter(), payouts.unpaid_fen // fill.SHARE_FEN, _cpu_s(one)
            while payouts.held:
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        raise Unavailable("not_paid", f"a backlog of {claims} claims is not paid after {DRAIN_S:.0f} s") from None
    seconds, after = time.perf_counter() - started, _cpu_s(one)
    if not left:
        return claims / seconds, dict.fromkeys(after, 0.0)
    return left / seconds, {name: (after[name] - before[name]) * 1e6 / left for name in after}


def _cpu_s(one: OneSet) -> dict[str, float]:
    wallet = one.wallet.pid if one.wallet else 0
    bank = one.wallet_postgres.pid if one.wallet_postgres else 0
    return {
        "setnode": time.process_time(),
        "Postgres of the SET": used_s(one.postgres.pid),
        "wallet": used_s(wallet),
        "Postgres of the wallet": used_s(bank),
    }


async def _funded(one: OneSet, size: Size) -> list[int]:
    """Make envelopes whose money is in escrow, paid in by their sender through the wallet."""
    headers = fill.draft(one.today, size.envelopes, size.shares, one.tables.slots, one.node.clock.now_ms())
    total_fen = size.shares * fill.SHARE_FEN
    link = Link("wallet", one.node.settings.wallet_url, key=root_key(ROOT, OPERATOR))
    keeping = asyncio.ensure_future(link.maintain())
    try:
        while not (link.up and one.node.wallet_link.up):
            await asyncio.sleep(LOOK_S)
        await WalletClient(link).deposit(f"D{secrets.token_hex(8)}", "sender", total_fen * len(headers))
        # Taking a create's money is what a setnode may.
        wallet = WalletClient(one.node.wallet_link)
        await asyncio.gather(
            *(
                wallet.fund(terms.create_key, "bench", "sender", total_fen, terms.envelope_id, header_hash(terms), b"")
                for terms in headers
            )
        )
    finally:
        keeping.cancel()
        await asyncio.wait({keeping})
    await fill.copy_headers(one, headers)
    for terms in headers:
        one.node.registry.adopt(ClaimLog(terms))
    return [terms.envelope_id for terms in headers]


async def _paid(one: OneSet) -> int:
    """Return what the wallet has credited for claims, in fen."""
    return int(await one.wallet_scalar("SELECT coalesce(sum(amount_fen), 0)::bigint FROM transfer WHERE kind = 2"))


async def _measure(bench: Bench) -> Figures:
    return await measure(bench, QUICK if bench.quick else Size())


def _rows(figures: Figures) -> Iterable[Row]:
    more = ", ".join(f"{name} {cpu:.0f} µs" for name, cpu in figures["cpu_us_per_credit"].items())
    yield Row("opens committed, wallet away", f"{figures['opens_per_second']:,.0f} opens/s", "with payout intents")
    yield Row("backlog paid", f"{figures['credits_per_second']:,.0f} credits/s", f"CPU of a credit: {more}")


def _plots(figures: Figures, folder: Path) -> Sequence[str]:
    words = pictures.Axes("CPU of a credit by component", "µs")
    return (pictures.stacked(folder / "payouts.svg", words, {"a credit": figures["cpu_us_per_credit"]}),)


SECTION: Final = Section("payouts", "a backlog of claims paid into wallets", _measure, _rows, _plots)
