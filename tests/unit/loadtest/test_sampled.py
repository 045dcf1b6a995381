"""Whose a stack is."""

import os

from loadtest.bench.cputime import used_s
from loadtest.bench.sampled import OTHER, component


def test_the_innermost_frame_that_anybody_claims_decides() -> None:
    """Plumbing belongs to whoever called it, and the bare loop to nobody."""
    assert component(["envelope.decide", "setnode.actors.actor", "wire.server", "uvloop"]) == "actor"
    assert component(["asyncpg.connection", "runtime.postgres", "setnode.rounds.payout"]) == "payout"
    assert component(["asyncpg.connection", "setnode.commit.store", "setnode.commit.claims"]) == "commit"
    assert component(["aiohttp.http_websocket", "asyncio.events"]) == "link"
    assert component(["uvloop", "runtime.process", "__main__"]) == OTHER


def test_cpu_time_only_grows() -> None:
    """What was worked is seen, and a process that is not there has used nothing."""
    before = used_s(os.getpid())
    sum(range(3_000_000))
    assert used_s(os.getpid()) > before
    assert used_s(2**22 + 1) == 0.0
