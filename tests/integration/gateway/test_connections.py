"""What one connection may cost and survive: memory of the idle, of those who do not read, of long heads; odd peers."""

import asyncio
import gc
import json

import pytest

from gateway.connection import Connection
from gateway.limits import HEADER_BYTES, HEADERS
from tests.integration.gateway.fixtures import Door, door, some_id

__all__ = ["door"]

DOCS = b"GET /docs HTTP/1.1\r\nHost: x\r\n\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
BUFFERED = 1_000_000
"""More than one page and the transport's own mark; far less than what is asked for."""


async def connect(door: Door) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = door.url.removeprefix("http://").split(":")
    return await asyncio.open_connection(host, int(port), limit=2**26)


def held(writer: asyncio.StreamWriter) -> Connection:
    """Return the gateway's end of a connection."""
    name = writer.get_extra_info("sockname")
    ends = [one for one in gc.get_objects() if type(one) is Connection and one.transport is not None]
    (end,) = (one for one in ends if one.transport.get_extra_info("peername") == name)
    return end


async def heads(reader: asyncio.StreamReader, count: int) -> list[str]:
    """Read answers; returns their status lines."""
    found = []
    for _ in range(count):
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10.0)).decode()
        (length,) = (line.split(": ")[1] for line in head.splitlines() if line.startswith("Content-Length"))
        await reader.readexactly(int(length))
        found.append(head.splitlines()[0])
    return found


async def test_an_idle_connection_keeps_nothing(door: Door) -> None:
    """The last request and its answer are let go, not held until the next one comes."""
    reader, writer = await connect(door)
    writer.write(DOCS)
    await heads(reader, 1)
    await asyncio.sleep(0.05)
    kept = held(writer)._task_handler.get_coro().cr_frame.f_locals
    assert not set(kept) & {"message", "payload", "request", "answer"}
    writer.close()


async def test_who_asks_and_does_not_read_fills_no_memory(door: Door) -> None:
    """Many pages asked for at once: they are made as they are taken, and all of them come."""
    reader, writer = await connect(door)
    writer.transport.pause_reading()
    pages = 600
    writer.write(DOCS * pages)
    most = 0
    for _ in range(40):
        await asyncio.sleep(0.02)
        most = max(most, held(writer).transport.get_write_buffer_size())
    assert 0 < most < BUFFERED
    writer.transport.resume_reading()
    assert await heads(reader, pages) == ["HTTP/1.1 200 OK"] * pages
    writer.close()


async def test_who_never_reads_is_hung_up_on(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sent is not kept for ever for somebody who does not come for it."""
    monkeypatch.setattr("gateway.connection.TAKE_S", 0.2)
    _, writer = await connect(door)
    writer.transport.pause_reading()
    writer.write(DOCS * 600)
    await asyncio.sleep(0.1)
    end = held(writer)
    await door.until(lambda: end.transport is None)
    writer.close()


async def test_an_upgrade_behind_another_request_is_answered(door: Door) -> None:
    """To the first nothing is special; the second is answered like any other and is the last."""
    reader, writer = await connect(door)
    writer.write(HEALTH + b"\r\n" + HEALTH + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    assert await heads(reader, 2) == ["HTTP/1.1 200 OK"] * 2
    assert await asyncio.wait_for(reader.read(), 5.0) == b""
    writer.close()


@pytest.mark.parametrize("protocol", [b"h2c", b"TLS/1.0", b"websocket"])
async def test_nothing_is_read_behind_an_upgrade(door: Door, protocol: bytes) -> None:
    """Aiohttp's parser drops what follows in the segment, and would take the next body for a request: it ends there."""
    reader, writer = await connect(door)
    upgrade = HEALTH + b"Connection: Upgrade\r\nUpgrade: " + protocol + b"\r\n\r\n"
    writer.write(upgrade + b"POST /v1/envelopes HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(DOCS))
    await asyncio.sleep(0.05)
    writer.write(DOCS)
    answers = await asyncio.wait_for(reader.read(), 5.0)
    assert answers.count(b"HTTP/1.1 ") == 1
    assert b"Connection: close" in answers
    writer.close()


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([b"X: y"] * (HEADERS - 1), 200),
        ([b"X: y"] * (HEADERS + 1), 400),
        ([b"X: " + b"y" * (HEADER_BYTES - 100)], 200),
        ([b"X: " + b"y" * (HEADER_BYTES + 1)], 400),
    ],
)
async def test_how_long_a_head_may_be(door: Door, lines: list[bytes], status: int) -> None:
    """What one request's head may cost in memory has a bound; beyond it there is nothing to read on."""
    reader, writer = await connect(door)
    writer.write(HEALTH + b"".join(line + b"\r\n" for line in lines) + b"\r\n")
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5.0)).decode()
    assert head.startswith(f"HTTP/1.1 {status} ")
    if status != 200:
        assert json.loads(await asyncio.wait_for(reader.read(), 5.0))["code"] == "malformed_http"
    writer.close()


@pytest.mark.parametrize("reply", [[], ["status"], [2, "code"], [1], [7, "code", "detail", 1.0]])
async def test_a_reply_that_cannot_be_read_is_no_answer(door: Door, reply: list) -> None:
    """A server of another version loses its link and nothing else: its callers are told to repeat, others go on."""
    for peer in door.servers.values():
        peer.answer = lambda peer, number, *_: (peer._outbox.append([number, *reply]), peer._flush.set())
    status, _, problem = await door.call("POST", f"/v1/envelopes/{some_id()}/open")
    assert status >= 500
    for peer in door.servers.values():
        peer.answer = lambda peer, number, *_: peer.reply(number, 0, 7, 0, False, None)
    await door.until_ready()
    status, _, answer = await door.call("POST", f"/v1/envelopes/{some_id()}/open")
    assert (status, answer["amount_fen"]) == (200, 7), problem
