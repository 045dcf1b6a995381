"""Events in a stream of NATS JetStream, on a real server."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.js.api import StreamConfig

from errors import Refused
from events import jetstream
from events.event import Event
from events.jetstream import JetStream
from events.register import Kind, Target, add
from events.service import sender_of
from machine import ports
from tests.integration.events.fixtures import delivering, operator, out_of_order, quick, sink_of, until_sink
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


async def test_a_server_that_sends_a_connection_away_is_connected_again(
    town: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library gives up a connection on which the server has sent an error; the sink goes on when it may again."""
    monkeypatch.setattr("events.jetstream._CONNECT_S", 2.0)
    async with nats_server(tmp_path, "hongbao") as server:
        await _add(town, server.url)
        async with delivering(town):
            await town.create(1_000, 1)
            await _stored(server, 1)
            await server.change_password("other")
            await town.create(1_000, 1)
            await until_sink(town, lambda sink: sink.failing_since is not None, "bus")
            await server.change_password("right")
            assert len({one.headers["Nats-Msg-Id"] for one in await _stored(server, 2)}) == 2
            await until_sink(town, lambda sink: not sink.behind_s and sink.failing_since is None, "bus")


async def test_a_stream_that_is_lost_is_made_again(town: Town, tmp_path: Path) -> None:
    """A server that comes back with an empty store gets what is told from then on; what it had is not told again."""
    async with nats_server(tmp_path) as server:
        await _add(town, server.url)
        async with delivering(town):
            await town.create(1_000, 1)
            await _stored(server, 1)
            await until_sink(town, lambda sink: sink.delivered == 1, "bus")
            await server.stop()
            server.lose_store()
            await server.start()
            envelope_id = await town.create(1_000, 1)
            (message,) = await _stored(server, 1)
    assert message.headers["Nats-Msg-Id"] == f"{envelope_id}.created"


async def test_all_lanes_say_why_a_server_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """One lane connects; if that fails, every lane returns its error at once, and none runs out of time."""
    monkeypatch.setattr("events.jetstream._CONNECT_S", 2.0)
    monkeypatch.setattr("events.jetstream.CALL_S", 10.0)
    stream = JetStream(Target("bus", Kind.NATS, f"nats://127.0.0.1:{ports.free_port()}"))
    failures = await asyncio.gather(*(stream.send([_event(n)]) for n in range(20)))
    await stream.close()
    assert all(one is not None and "Connect call failed" in one.reason for one in failures)


@pytest.mark.parametrize("answer", [b"+OK", b"{}", b'{"error":{}}', b'{"error":"x"}', b"\xff"])
async def test_an_answer_that_is_none_is_a_failure(answer: bytes) -> None:
    """Another program may answer on the subject of an event: the call has failed, and says what came."""
    async with _answering(answer) as address:
        stream = JetStream(Target("bus", Kind.NATS, address))
        failure = await stream.send([_event(1)])
        await stream.close()
    assert failure is not None
    assert failure.reason.startswith("NATS did not store the event: ")


def _event(number: int) -> Event:
    return Event(1, f"1.opened.{number}", "share.opened", b"{}")


@contextlib.asynccontextmanager
async def _answering(answer: bytes) -> AsyncIterator[str]:
    """A server of NATS that knows every stream, and answers each event with these bytes; yields its address."""
    info = {"server_id": "x", "version": "2.10.0", "max_payload": 1 << 20, "headers": True, "proto": 1}
    state = {"messages": 0, "bytes": 0, "first_seq": 0, "last_seq": 0, "consumer_count": 0}
    stream = {"type": "x", "config": {"name": "HONGBAO"}, "state": state, "created": "2024-01-01T00:00:00Z"}
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(b"INFO %b\r\n" % json.dumps(info).encode())
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while line := await reader.readline():
                if line.startswith(b"PING"):
                    writer.write(b"PONG\r\n")
                elif line.startswith((b"PUB", b"HPUB")):
                    _, subject, reply, *_, size = line.split()
                    await reader.readexactly(int(size) + 2)
                    told = json.dumps(stream).encode() if subject.startswith(b"$JS") else answer
                    writer.write(b"MSG %b 1 %d\r\n%b\r\n" % (reply, len(told), told))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.close()


@pytest.mark.parametrize(
    "address",
    [
        "nats://", "http://host:4222", "nats://host:4222/a b", "nats://host/a.b",
        "nats://host:99999", "nats://host:abc", "nats://host:0", "nats://[::1",
    ],
)  # fmt: skip
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


async def test_a_stream_that_is_not_found_at_once_is_found_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has sent the connection away, and on the next one does not say at first whether there is a stream."""
    event = Event(1, "1.opened.1", "share.opened", b"{}")
    found = jetstream._ensure_stream

    async def not_ready(*_: object) -> None:
        raise ConnectionError("no answer about the stream")

    async with nats_server(tmp_path, user="bus") as server:
        sender = JetStream(Target("bus", Kind.NATS, server.url))
        assert await sender.send([event]) is None
        await server.change_password("other")
        async with asyncio.timeout(60):
            while await sender.send([event]) is None:
                await asyncio.sleep(0.05)
        await server.change_password("right")
        monkeypatch.setattr(jetstream, "_ensure_stream", not_ready)
        async with asyncio.timeout(60):
            while (failed := await sender.send([event])) is None or "about the stream" not in failed.reason:
                await asyncio.sleep(0.05)
        monkeypatch.setattr(jetstream, "_ensure_stream", found)
        async with asyncio.timeout(60):
            while await sender.send([event]) is not None:
                await asyncio.sleep(0.05)
        await sender.close()
