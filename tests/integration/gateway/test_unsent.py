"""Clients who ask for much and read nothing: what the gateway keeps for all of them, and whom it ends."""

import asyncio
import contextlib
import resource
import select
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.identity.tokens import make_token
from gateway.unsent import UnsentAnswers
from runtime.clock import SystemClock
from tests.integration.gateway.fixtures import KEY, Door, door, some_id
from wire.messages import Op
from wire.server import Caller

__all__ = ["door"]

MB = 1_000_000
PAGE = 1 * MB
BOUND = 8 * MB
CLIENTS = 120
SLACK = 48 * MB
"""What else the process may come to use: an answer under way is there several times, in both ends of its link."""
TOKEN = make_token(KEY, "bob", ttl_s=3600, clock=SystemClock())
SHOWN = b'{"padding":"%b"}' % (b"x" * PAGE)


def shown(caller: Caller, number: int, op: int, args: list[Any]) -> None:
    """Answer a detail with a new page each time, as a setnode does."""
    assert op == Op.DETAIL
    caller.reply(number, bytes(bytearray(SHOWN)), False, "1-0")


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@contextlib.asynccontextmanager
async def silent_clients(door: Door, number: int, pages: int) -> AsyncIterator[list[socket.socket]]:
    """Clients that each ask for `pages` details and read nothing."""
    ask = f"GET /v1/envelopes/{some_id()} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    made = []
    try:
        for _ in range(number):
            one = socket.socket()
            made.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.setblocking(False)
            await asyncio.get_running_loop().sock_connect(one, ("127.0.0.1", door.gateway.port))
            one.send(ask * pages)
            # One after the other: answers that are under way at the same time are another bound's matter.
            await asyncio.sleep(0.02)
        yield made
    finally:
        for one in made:
            one.close()


async def test_many_who_do_not_read_stay_within_the_bound(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many clients do not read, what waits for them stays within UNSENT_BYTES; one that reads is served."""
    monkeypatch.setattr("gateway.unsent.UNSENT_BYTES", BOUND)
    for server in door.servers.values():
        server.answer = shown
    unsent: UnsentAnswers = door.gateway.unsent
    before, seen, waited = resident(), [0], [0]

    async def watch() -> None:
        while True:
            seen.append(resident() - before)
            waited.append(unsent.bytes)
            await asyncio.sleep(0.005)

    watching = asyncio.ensure_future(watch())
    async with silent_clients(door, CLIENTS, 8) as held:
        await door.until(lambda: sum(map(hung_up, held)) > CLIENTS - 10)
        watching.cancel()
        assert BOUND // 2 < max(waited) <= BOUND
        assert max(seen) < BOUND + SLACK < CLIENTS * PAGE // 2
        status, _, _ = await door.call("GET", f"/v1/envelopes/{some_id()}", "bob")
        assert status == 200
    await door.until(lambda: unsent.bytes == 0 and not len(unsent))


def hung_up(client: socket.socket) -> bool:
    """Say whether the gateway has reset the connection; reads nothing."""
    poll = select.poll()
    poll.register(client, 0)
    return any(events & select.POLLHUP for _, events in poll.poll(0))


class Waiting:
    """A connection whose client does not read."""

    def __init__(self) -> None:
        self.address = "192.0.2.1"
        self.idle_since, self.asked, self.began, self.began_at, self.serving = 0.0, True, False, None, True
        self.ended = False

    def hang_up(self) -> None:
        self.ended = True


@pytest.fixture
def unsent(monkeypatch: pytest.MonkeyPatch) -> UnsentAnswers:
    monkeypatch.setattr("gateway.unsent.UNSENT_BYTES", 1_000)

    def end(one: Any, _: str) -> None:
        one.hang_up()

    return UnsentAnswers(end)


def test_the_network_that_holds_most_is_ended_first(unsent: UnsentAnswers) -> None:
    """A crowd behind one address cannot push out a client of another: its own oldest connections end."""
    honest, crowd = Waiting(), [Waiting() for _ in range(40)]
    unsent.add(honest, "198.51.100.7", 100)
    for one in crowd:
        unsent.add(one, "192.0.2.1", 100)
    assert not honest.ended
    assert unsent.bytes <= 1_000
    ended = [one.ended for one in crowd]
    assert ended == sorted(ended, reverse=True)
    assert 0 < ended.count(False) < 10


def test_what_has_been_sent_is_counted_no_more(unsent: UnsentAnswers) -> None:
    """A connection whose answer is out, or that has ended, leaves nothing behind, however often it is removed."""
    one, two = Waiting(), Waiting()
    unsent.add(one, "192.0.2.1", 400)
    unsent.add(two, "192.0.2.2", 400)
    unsent.remove(one)
    unsent.remove(one)
    assert (unsent.bytes, len(unsent)) == (400, 1)
    unsent.remove(two)
    assert (unsent.bytes, len(unsent)) == (0, 0)
