"""The component that a stack belongs to."""

import os
from pathlib import Path

from loadtest.bench.cputime import used_s
from loadtest.bench.sampled import COMPONENTS, OTHER, component

ROOT = Path(__file__).resolve().parents[3]


def test_the_innermost_frame_with_a_component_decides() -> None:
    """Plumbing belongs to its caller, and the bare loop to no component."""
    assert component(["envelope.decide", "setnode.actors.actor", "wire.server", "uvloop"]) == "actor"
    assert component(["asyncpg.connection", "runtime.postgres", "setnode.services.payouts.payer"]) == "payout"
    assert component(["asyncpg.connection", "setnode.commit.store", "setnode.commit.claim_queue"]) == "commit"
    assert component(["pymemcache.client.base", "setnode.commit.lease_store", "threading"]) == "admission"
    assert component(["setnode.passwords", "setnode.actors.actor", "wire.server"]) == "actor"
    assert component(["wire.framing", "wire.server"]) == component(["aiohttp.http_websocket"]) == "link"
    assert component(["wire.framing", "wire.link", "setnode.services.payouts.payer"]) == "payout"
    assert component(["uvloop", "runtime.process", "__main__"]) == OTHER


def test_components_name_modules_that_are_there() -> None:
    """A room that is renamed takes its component along: each of our prefixes begins the name of a module."""
    ours = ("setnode.", "wire.", "envelope.", "runtime.", "schema.")
    files = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for one in ours
        for path in ROOT.glob(f"{one[:-1]}/**/*.py")
    ]
    prefixes = [prefix for _, some in COMPONENTS for prefix in some if prefix.startswith(ours)]
    assert [prefix for prefix in prefixes if not any(name.startswith(prefix) for name in files)] == []


def test_cpu_time_only_grows() -> None:
    """Work of this process is counted, and a process that does not exist has used nothing."""
    before = used_s(os.getpid())
    sum(range(3_000_000))
    assert used_s(os.getpid()) > before
    assert used_s(2**22 + 1) == 0.0
