"""The best pool size of each baseline: a short sweep, so that none is measured with a bad setting."""

from dataclasses import replace
from typing import Any

from loadtest.bench.arena import CONNECTIONS, Arena
from loadtest.bench.workloads import Workload

SIZES = (CONNECTIONS, 64, 32, 16, 8, 4)
FEW = (32, 8, 2, 1)
"""Sizes tried for callers that hinder each other at one envelope."""


async def sweep(arena: Arena, hot: Workload, many: Workload, seconds: float) -> dict[str, Any]:
    """Find and set the best pool of every baseline that uses the pool; returns what each size gave.

    The pessimistic lock at one hot envelope stays at 100: that is the setting whose collapse is the question.
    """
    seen: dict[str, Any] = {}
    for name, workload, sizes in (
        # The first size is also what warms every connection up: statements are prepared, catalogs read.
        ("pessimistic", many, (*SIZES[:1], *SIZES)),
        ("optimistic", many, (*SIZES[:1], *SIZES)),
        ("fifo", many, (*SIZES[:1], *SIZES)),
        ("optimistic", hot, FEW),
    ):
        rates: dict[int, float] = {}
        for size in sizes:
            arena.best[name, workload.hot] = size
            run, _, _ = await arena.run(name, replace(workload, seconds=seconds))
            rates[size] = run.per_second
        arena.best[name, workload.hot] = max(rates, key=rates.__getitem__)
        seen[f"{name}_{workload.key}"] = {str(size): rate for size, rate in sorted(rates.items())}
    arena.best["pessimistic", True] = CONNECTIONS
    for hot_too in (True, False):
        arena.best["optimistic_once", hot_too] = arena.best["optimistic", hot_too]
    return seen
