"""`python -m loadtest.bench.footprint_process WHAT COUNT`: memory of envelopes and requests, in a fresh process.

A process that has just begun has no free memory inside that would hide what is added. Prints one JSON object: bytes for
each of COUNT, by the kernel (resident set) or by tracemalloc (Python's own allocations, which is slow). WHAT is
`fresh`, `half`, `full`, `asleep` or `waiting`, with `:traced` behind it for tracemalloc.
"""

import asyncio
import gc
import json
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import uvloop

from envelope.claim_log import ClaimLog
from envelope.split import SPLIT_VERSION, Split
from envelope.terms import Kind, Terms
from loadtest.rss import resident_bytes
from runtime import process
from runtime.clock import SystemClock
from setnode.actors.actor import Actor
from setnode.actors.registry import Registry
from setnode.dispatch import Dispatcher
from sharding.ids import business_date, make_id
from wire.messages import Op
from wire.server import Caller

SHARES = 20
OPENED = {"fresh": 0, "half": SHARES // 2, "full": SHARES}
SEVERAL = 500
"""Requests in a frame, and at one envelope."""


def weigh(what: str, count: int) -> float:
    """Return bytes for each of `count`; `what` as on the command line."""
    kind, _, traced = what.partition(":")
    registry = _registry(asleep=kind == "asleep")
    make = _requests(registry, count) if kind == "waiting" else _envelopes(registry, count, OPENED.get(kind, SHARES))
    make(range(1, 100))  # whatever is made once only
    gc.collect()
    measure = _traced if traced else resident_bytes
    if traced:
        tracemalloc.start()
    before = measure()
    make(range(100, 100 + count))
    gc.collect()
    return (measure() - before) / count


def _registry(*, asleep: bool) -> Registry:
    def nothing(_: Actor) -> None: ...

    return Registry(
        SystemClock(),
        loop_time=asyncio.get_running_loop().time,
        enqueue_commit=nothing,
        note_hot=nothing,
        enqueue_load=nothing,
        live_shares=SHARES * 100 if asleep else 2**40,
    )


def _envelopes(registry: Registry, _: int, opened: int) -> Callable[[Sequence[int]], None]:
    """Envelopes as they are after `opened` opens, every winner's name a string of its own, as it comes off the link."""

    def make(numbers: Sequence[int]) -> None:
        for number in numbers:
            log = ClaimLog(_terms(number, SHARES))
            for share in range(opened):
                log.append(f"user-{number:08d}-{share:02d}", 1_800_000_000_000 + number + share)
            log.mark_committed()
            registry.adopt(log)

    return make


def _requests(registry: Registry, count: int) -> Callable[[Sequence[int]], None]:
    """Opens that wait for a commit that does not come: read from a frame, dispatched, in the mailbox."""
    crowds: Any = None  # no create is asked for
    switches: Any = None  # and no view
    watches: Any = None  # and nobody watches
    dispatcher = Dispatcher(
        registry, crowds, password_key=b"bench", admit=lambda *_: None, switches=switches, watches=watches
    )
    caller, decoder = Caller("bench"), msgspec.msgpack.Decoder(list[list[Any]])
    ids = [make_id(_TODAY, number, number % 100) for number in range(count // SEVERAL + 2)]
    for number, _ in enumerate(ids):
        registry.adopt(ClaimLog(_terms(number, SEVERAL)))

    def make(numbers: Sequence[int]) -> None:
        for first in range(numbers[0], numbers[-1] + 1, SEVERAL):
            some = range(first, min(first + SEVERAL, numbers[-1] + 1))
            frame = [[number, Op.OPEN, ids[number // SEVERAL], f"user-{number:08d}", True, None] for number in some]
            for number, op, *args in decoder.decode(msgspec.msgpack.encode(frame)):
                dispatcher.handle(caller, number, op, args)

    return make


_TODAY = business_date(SystemClock().now())


def _terms(number: int, shares: int) -> Terms:
    return Terms(
        envelope_id=make_id(_TODAY, number, number % 100),
        sender=f"sender-{number:08d}",
        kind=Kind.LUCKY,
        split=Split.DOUBLE_MEAN,
        split_version=SPLIT_VERSION,
        total_fen=shares * 100,
        count=shares,
        greeting=f"恭喜发财 {number}",
        created_at_ms=1_800_000_000_000 + number,
        opens_at_ms=1_800_000_000_000 + number,
        expires_at_ms=1_800_086_400_000 + number,
        seed=number.to_bytes(32, "big"),
        create_key=f"{number:032d}",
    )


def _traced() -> int:
    return tracemalloc.get_traced_memory()[0]


async def _main() -> None:
    process.tune_gc()
    what, count = sys.argv[1], int(sys.argv[2])
    sys.stdout.write(json.dumps({"what": what, "count": count, "bytes": weigh(what, count)}) + "\n")


if __name__ == "__main__":
    uvloop.run(_main())
