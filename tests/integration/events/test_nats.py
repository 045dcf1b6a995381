"""Events in a stream of NATS JetStream, on a real server."""

import asyncio
import json
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.js.api import StreamConfig

from errors import Refused
from events.register import Kind, Target, add
from events.service import sender_of
from machine import ports
from tests.integration.events.fixtures import delivering, operator, out_of_order, quick, sink_of
from tests.integration.events.nats_server import NatsServer, nats_server
from tests.integration.setnode.fixtures import Town, town

__all__ = ["quick", "town"]

pytestmark = pytest.mark.usefixtures("quick")


async def _add(town: Town, address: str) -> None:
    async with operator(town) as connection:
        assert await add(connection, Target("bus", Kind.NATS, address))


async def _stored(server: NatsServer, count: int, stream: str = "HONGBAO") -> list[Any]:
    """Return the messages of the stream once there are `count`."""
    client = await nats.connect(server.url)
    try:
        context = client.jetstream()
        async with asyncio.timeout(60):
            while True:
                try:
                    if (await context.stream_info(stream)).state.messages >= count:
                        break
                except nats.js.errors.NotFoundError:
                    pass
                await asyncio.sleep(0.02)
        subscription = await context.subscribe("hongbao.>", stream=stream, ordered_consumer=True)
        return [await subscription.next_msg(5) for _ in range(count)]
    finally:
        await client.close()


async def test_events_are_in_the_stream_in_order(town: Town, tmp_path: Path) -> None:
    """The stream is made if there is none; subjects are the types; every event is there once, in order."""
    async with nats_server(tmp_path) as server:
        await _add(town, server.url)
        async with delivering(town):
            ids = await asyncio.gather(*(town.create(1_000, 10) for _ in range(5)))
            await asyncio.gather(*(town.open(one, f"u{n}") for one in ids for n in range(10)))
            messages = await _stored(server, 60)
    events = [json.loads(one.data) for one in messages]
    assert [one.subject for one in messages] == [f"hongbao.{one['type']}" for one in events]
    assert [one.headers["Nats-Msg-Id"] for one in messages] == [one["id"] for one in events]
    assert len({one["id"] for one in events}) == 60
    assert not list(out_of_order(events))


async def test_a_server_that_restarts_misses_nothing(town: Town, tmp_path: Path) -> None:
    """While it is away events wait; repeats of what it had stored are dropped by their ID."""
    async with nats_server(tmp_path) as server:
        await _add(town, server.url)
        async with delivering(town):
            envelope_id = await town.create(10_000, 90)
            for begin in (0, 45):
                playing = [asyncio.create_task(town.open(envelope_id, f"u{begin + n}")) for n in range(45)]
                await server.stop()
                await asyncio.gather(*playing)
                await server.start()
            events = [json.loads(one.data) for one in await _stored(server, 92)]
            async with asyncio.timeout(60):
                while (await sink_of(town, "bus")).behind_s or (await sink_of(town, "bus")).failing_since:
                    await asyncio.sleep(0.05)
    assert len({one["id"] for one in events}) == 92
    assert not list(out_of_order(events))


async def test_a_stream_that_is_full_holds_its_sink(town: Town, tmp_path: Path) -> None:
    """The server's refusal is shown; once there is room all arrive. A stream of its owner's is used as it is."""
    async with nats_server(tmp_path) as server:
        client = await nats.connect(server.url)
        context = client.jetstream()
        config = StreamConfig(name="OURS", subjects=["hongbao.>"], max_msgs=3, discard="new")
        await context.add_stream(config)
        await _add(town, f"{server.url}/OURS")
        async with delivering(town):
            envelope_id = await town.create(1_000, 4)
            for n in range(4):
                await town.open(envelope_id, f"u{n}")
            async with asyncio.timeout(60):
                while "maximum messages" not in (await sink_of(town, "bus")).error:
                    await asyncio.sleep(0.05)
            await context.update_stream(config.evolve(max_msgs=100))
            events = [json.loads(one.data) for one in await _stored(server, 6, "OURS")]
        await client.close()
    assert not list(out_of_order(events))


@pytest.mark.parametrize("address", ["nats://", "http://host:4222", "nats://host:4222/a b", "nats://host/a.b"])
async def test_addresses_that_are_no_servers(address: str) -> None:
    """They are refused when they are named, with a sentence."""
    with pytest.raises(Refused) as refused:
        sender_of(Target("bus", Kind.NATS, address))
    assert refused.value.code == "address_invalid"


async def test_a_server_that_is_away_is_shown(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it was never reached: the receiver counts as failing, with what the connection met."""
    monkeypatch.setattr("events.jetstream._CONNECT_S", 1.0)
    await _add(town, f"nats://127.0.0.1:{ports.free_port()}")
    async with delivering(town):
        await town.create(1_000, 1)
        async with asyncio.timeout(60):
            while "Connect call failed" not in (sink := await sink_of(town, "bus")).error:
                await asyncio.sleep(0.05)
    assert sink.failing_since is not None
