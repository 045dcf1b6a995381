"""Faults that are no receiver's: in the delivery itself, in an address; and days without the process."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import web

from events import limits
from events.delivery import Delivery
from events.event import Event
from events.outcome import Failed
from events.register import Kind, State, Target, add
from tests.integration.events.fixtures import (
    Receiver,
    add_sink,
    delivering,
    operator,
    quick,
    receiver,
    sink_of,
    until_sink,
)
from tests.integration.setnode.fixtures import Town, town

__all__ = ["quick", "receiver", "town"]

pytestmark = pytest.mark.usefixtures("quick")


class _Sender:
    """Breaks what the protocol of senders promises, while `broken`: it raises."""

    def __init__(self) -> None:
        self.broken = True
        self.sent: list[str] = []

    async def send(self, events: Sequence[Event]) -> Failed | None:
        if self.broken:
            raise LookupError("a fault\nof ours")
        self.sent += [one.id for one in events]
        return None

    def retarget(self, target: Target) -> None:
        """Nothing changes."""

    async def close(self) -> None:
        """Nothing is held."""


async def test_a_fault_in_a_delivery_is_shown_at_its_sink(town: Town, receiver: Receiver) -> None:
    """It counts as a failure of the sink, with what it was, for as long as it lasts; then nothing is missing."""
    await add_sink(town, receiver)
    sender = _Sender()
    async with delivering(town, lambda _: sender):
        created = await town.create(1_000, 1)
        sink = await until_sink(town, lambda sink: sink.failing_since is not None)
        assert "LookupError: a fault of ours" in sink.error
        assert (await until_sink(town, lambda sink: sink.behind_s > 0)).state == State.ACTIVE
        sender.broken = False
        sink = await until_sink(town, lambda sink: sink.failing_since is None and sink.delivered > 0)
        assert not sink.error
    assert sender.sent == [f"{created}.created"]


async def test_a_sink_that_cannot_be_called_is_shown(town: Town) -> None:
    """As one whose address an older release has taken, and this one knows to be none."""
    async with operator(town) as connection:
        assert await add(connection, Target("bus", Kind.NATS, "nats://host:99999"))
    async with delivering(town):
        sink = await until_sink(town, lambda sink: sink.failing_since is not None, "bus")
        assert "cannot be called: 'nats://host:99999' is no NATS server" in sink.error


async def test_days_without_the_process_are_no_days_of_failures(
    town: Town, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who failed once before is asked before it is disabled, and for a while: it may start with the same machine."""
    monkeypatch.setattr("events.delivery.ASKED_S", limits.ASKED_S)
    saves = []
    save = Delivery.save

    async def count(delivery: Delivery) -> None:
        saves.append(delivery)
        await save(delivery)

    monkeypatch.setattr(Delivery, "save", count)
    looked = asyncio.Event()

    async def away(_: Any) -> web.StreamResponse:
        await looked.wait()
        return web.Response(status=503 if len(receiver.calls) < 3 else 204)

    receiver.answer = away
    await add_sink(town, receiver)
    async with operator(town) as connection:
        await connection.execute("UPDATE event_cursor SET failing_since = now() - interval '80 hours', error = '503'")
    async with delivering(town):
        await town.create(1_000, 1)
        # The first call is not answered, and how long the receiver has failed was looked at three times.
        await receiver.until(lambda: len(receiver.calls) == 1 and len(saves) >= 4)
        assert (await sink_of(town)).state == State.ACTIVE
        looked.set()
        await receiver.until(lambda: bool(receiver.accepted))
        sink = await until_sink(town, lambda sink: sink.failing_since is None)
    assert (sink.state, sink.delivered) == (State.ACTIVE, 1)
