"""The demo from beginning to end: rounds, a crowd, three special envelopes, all payouts, the audit."""

import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from audit.report import Report
from demo.people import People
from demo.scenes import Deposit, Outcome, Scenes

ROUNDS = (15, 19)
DRAIN_S = 60.0

Step = Callable[[str, int, int], None]
"""Called with (title of the scene that begins, scenes done, scenes in all)."""


@dataclass(frozen=True)
class Story:
    """The outcomes, the speed of the opens until the crowd's end, and the audit."""

    outcomes: list[Outcome]
    opens: dict[str, int]
    opens_per_second: float
    p50_ms: float
    p99_ms: float
    audit: Report

    @property
    def holds(self) -> bool:
        """Whether the audit found nothing and no payout is in flight."""
        return self.audit.holds and self.audit.sums.in_flight == 0

    def as_json(self) -> dict[str, Any]:
        """Return the figures as builtins for JSON."""
        return {
            "rounds": sum(ROUNDS),
            "envelopes": len(self.outcomes),
            "opens": self.opens,
            "opens_per_second": round(self.opens_per_second, 1),
            "p50_ms": round(self.p50_ms, 2),
            "p99_ms": round(self.p99_ms, 2),
            "audit": self.audit.as_json(),
        }


async def play(people: People, deposit: Deposit, audit: Callable[[], Awaitable[Report]], step: Step) -> Story:
    """Play everything against a running stack; raises InvariantBroken as soon as a scene does not add up."""
    scenes = Scenes(people, deposit, random.Random(20))  # noqa: S311 - no secret
    total = sum(ROUNDS) + 5
    outcomes: list[Outcome] = []
    started = time.perf_counter()
    for number in range(sum(ROUNDS)):
        step(f"round {number + 1} of {sum(ROUNDS)}", number, total)
        outcomes.append(await scenes.round(number))
    step("a crowd of 500 on 100 shares", len(outcomes), total)
    outcomes.append(await scenes.crowd())
    opens, seconds = len(people.latencies_ms), time.perf_counter() - started
    for title, scene in (
        ("one that expires", scenes.expiring),
        ("one that is canceled", scenes.canceled),
        ("one with a password", scenes.password),
    ):
        step(title, len(outcomes), total)
        outcomes.append(await scene())
    step("payouts and audit", len(outcomes), total)
    report = await audit_when_drained(audit)
    step("done", total, total)
    cuts = statistics.quantiles(people.latencies_ms, n=100)
    return Story(outcomes, dict(people.results), opens / seconds, cuts[49], cuts[98], report)


async def audit_when_drained(audit: Callable[[], Awaitable[Report]]) -> Report:
    """Audit until no payout is in flight or DRAIN_S have passed; returns the last report."""
    deadline = time.monotonic() + DRAIN_S
    while True:
        report = await audit()
        if not report.holds or report.sums.in_flight == 0 or time.monotonic() > deadline:
            return report
        await asyncio.sleep(0.3)
