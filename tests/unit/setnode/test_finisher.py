"""Batches that are finished: when their rows are deleted."""

import asyncio
from typing import Any

import pytest

from runtime.clock import SystemClock
from setnode.services.payouts import finisher
from setnode.services.payouts.finisher import Finisher


async def test_a_standby_that_is_missing_is_waited_for_with_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often the workers come by meanwhile; once it is back the batches are written."""
    monkeypatch.setattr(finisher, "STANDBY_EVERY_S", 0.01)
    missing, woken, deleted = True, asyncio.Event(), []
    session: Any = None
    wakes = 0

    def wake() -> None:
        nonlocal wakes
        wakes += 1
        woken.set()

    async def write(batches: list[Any]) -> None:
        deleted.extend(batches)

    one = Finisher(session, SystemClock(), lambda _: True, wake, lambda _: None, lambda: missing)
    monkeypatch.setattr(one, "_write", write)
    batch: Any = object()
    one.add(batch)
    for _ in range(20):
        await one.finish()
    woken.clear()
    await asyncio.wait_for(woken.wait(), 20)
    assert (wakes, deleted) == (2, [])
    missing = False
    await one.finish()
    assert deleted == [batch]
