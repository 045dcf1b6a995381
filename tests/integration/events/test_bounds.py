"""Events that wait behind refused ones, up to the bounds of what may wait, and beyond them."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cli.commands.events_text import sink_json
from doctor.events import judge
from events.operators import SetSinks
from events.wake import wake
from tests.integration.events.fixtures import (
    Receiver,
    add_sink,
    delivering,
    operator,
    out_of_order,
    quick,
    receiver,
    sink_of,
    until_sink,
)
from tests.integration.setnode.fixtures import Town, town

__all__ = ["quick", "receiver", "town"]


@pytest.fixture(autouse=True)
def slow(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """After `quick`: a pause of the schedule is longer than a test, so that only a wake sends what is refused."""
    del quick
    monkeypatch.setattr("events.retries.RETRY_PAUSES_S", (86_400.0,) * 3)


def _refuse(*events: str) -> Callable[[list[dict[str, Any]]], int]:
    return lambda told: 500 if any(one["id"] in events for one in told) else 204


async def _opened(town: Town, shares: int) -> int:
    """An envelope whose events are all committed, in an order of their own: `shares` and two."""
    envelope_id = await town.create(100_000, shares)
    await asyncio.gather(*(town.open(envelope_id, f"u{n}") for n in range(shares)))
    return envelope_id


async def _hears(town: Town, receiver: Receiver, envelopes: int = 5) -> None:
    """New envelopes are heard of while others wait."""
    ids = {str(await town.create(1_000, 1)) for _ in range(envelopes)}
    await receiver.until(lambda: ids <= {one["subject"] for one in receiver.accepted})


async def _others_until(town: Town, holds: Callable[[Any], bool]) -> int:
    """Have others accepted until the sink is so, because what is refused must be refused alone; returns how many.

    Some may share a lane with what is refused, and wait for it.
    """
    number = 0
    async with asyncio.timeout(60):
        while not holds(await sink_of(town)):
            await town.create(1_000, 1)
            number += 1
    return number


async def _mended(town: Town, receiver: Receiver, events: int) -> None:
    """All have come, in order, and nothing waits or fails any more."""
    await receiver.until(lambda: len(receiver.first()) == events)
    sink = await until_sink(town, lambda sink: not sink.retried and sink.failing_since is None)
    assert (sink.error, sink.dead) == ("", 0)
    assert not list(out_of_order(receiver.accepted))


async def test_what_waits_behind_a_refused_event_does_not_stop_others(
    town: Town, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one envelope more may wait than envelopes may be refused: they lie in the database."""
    monkeypatch.setattr("events.retries.MAX_RETRIED", 5)
    await add_sink(town, receiver)
    hot = await _opened(town, 40)
    receiver.answer = _refuse(f"{hot}.created")
    async with delivering(town), operator(town) as connection:
        for _ in range(4):
            await _hears(town, receiver)
        await until_sink(town, lambda sink: sink.retried == 42 and sink.failing_since is None)
        receiver.answer = lambda _: 204
        await wake(connection, "app")
        await _mended(town, receiver, 42 + 20)


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_sink_whose_events_wait_at_their_bound_is_shown_as_failing(
    town: Town, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, *, restarted: bool
) -> None:
    """With the reason; it goes on as soon as the refused event is accepted, also in another process."""
    monkeypatch.setattr("events.retries.MAX_WAITING", 10)
    await add_sink(town, receiver)
    hot = await _opened(town, 40)
    receiver.answer = _refuse(f"{hot}.created")
    async with delivering(town), operator(town) as connection:
        others = await _others_until(town, lambda sink: "wait behind one that is: all others wait" in sink.error)
        sink = await sink_of(town)
        assert sink.failing_since is not None
        assert 10 <= sink.retried < 42
        found = SetSinks("set-1", [sink])
        assert any(sink.error in one for one in sink_json("app", [found])["needs"])
        assert any(sink.error in one.what for one in judge([found]))
        if not restarted:
            receiver.answer = lambda _: 204
            await wake(connection, "app")
            await _mended(town, receiver, 42 + others)
    if restarted:
        receiver.answer = lambda _: 204
        async with delivering(town):
            await _mended(town, receiver, 42 + others)


async def test_a_receiver_that_refuses_too_many_envelopes_is_shown_as_failing(
    town: Town, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more than may be refused waits in its lane until there is room; then all come."""
    monkeypatch.setattr("events.retries.MAX_RETRIED", 2)
    await add_sink(town, receiver)
    bad = [await town.create(1_000, 1) for _ in range(2)]
    receiver.answer = lambda told: 500 if int(told[0]["subject"]) in bad else 204
    async with delivering(town), operator(town) as connection:
        others = await _others_until(town, lambda sink: sink.retried == 2 and sink.failing_since is None)
        bad.append(await town.create(1_000, 1))
        others += await _others_until(town, lambda sink: sink.error.startswith("events of 2 envelopes are refused"))
        assert (await sink_of(town)).retried == 2
        receiver.answer = lambda _: 204
        await wake(connection, "app")
        await _mended(town, receiver, 3 + others)
