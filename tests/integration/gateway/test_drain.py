"""A gateway that stops: it serves on for a while, ends each connection with an answer, and loses none at its door."""

import asyncio
import os
from collections.abc import Callable

import msgspec
import pytest

from errors import Refused
from gateway.acceptor import Acceptor
from gateway.admission.line import Line
from gateway.limits import DRAIN_SPREAD
from gateway.service import Gateway
from runtime import listening
from runtime.process import Stop
from tests.integration.gateway.fixtures import Door, door, some_id
from tests.integration.gateway.test_connections import connect, held

__all__ = ["door"]

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


class Stopping:
    """A second gateway before the same servers, and its stop."""

    def __init__(self, door: Door, **settings: object) -> None:
        self.gateway = Gateway(msgspec.structs.replace(door.gateway.settings, **settings))
        self.stop = Stop()
        self.task = asyncio.ensure_future(self.gateway.run(self.stop))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.gateway.port}"


async def stopping(door: Door, **settings: object) -> Stopping:
    """Return a gateway that serves, and that the door's calls go to from now on."""
    one = Stopping(door, **settings)
    await one.gateway.serving.wait()
    door.url = one.url
    await door.until_ready()
    return one


async def answer(reader: asyncio.StreamReader) -> str:
    """Read an answer; return its head."""
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10.0)).decode()
    length = next(int(line.split(": ")[1]) for line in head.splitlines() if line.startswith("Content-Length"))
    await reader.readexactly(length)
    return head


async def test_it_serves_on_and_ends_each_connection_with_an_answer(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old connections and new ones are answered and closed, probes hear that it stops; then nobody is let in."""
    monkeypatch.setattr("gateway.acceptor.DRAIN_SPREAD", 1e-9)
    one = await stopping(door, drain_s=600)
    old = await connect(door)
    old[1].write(HEALTH)
    assert "Connection: close" not in await answer(old[0])
    one.stop.set()
    await door.until(lambda: one.gateway.readiness.leaving)
    await asyncio.sleep(0.1)
    status, headers, problem = await door.call("GET", "/readyz", None)
    assert (status, problem["code"], headers["Connection"]) == (503, "not_ready", "close")
    status, headers, told = await door.call("POST", f"/v1/envelopes/{some_id()}/open", "bob")
    assert (status, told["result"], headers["Connection"]) == (200, "opened", "close")
    old[1].write(HEALTH)
    assert "Connection: close" in await answer(old[0])
    assert await old[0].read() == b""
    old[1].close()
    one.stop.at_once.set()
    await one.task
    with pytest.raises(ConnectionRefusedError):
        await connect(door)


async def test_refusals_are_last_answers_too(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """To those who have just connected, and on old connections."""
    one = await stopping(door, drain_s=600)
    old = await connect(door)
    old[1].write(HEALTH)
    await answer(old[0])
    monkeypatch.setattr("gateway.acceptor.DRAIN_SPREAD", 1e-9)
    one.stop.set()
    await door.until(lambda: one.gateway.readiness.leaving)
    await asyncio.sleep(0.1)
    monkeypatch.setattr(Line, "selective", True)
    monkeypatch.setattr("gateway.admission.line.LINE_LEAST", 0)
    assert one.gateway.admission is not None
    one.gateway.admission.line._most = 0
    request = f"POST /v1/envelopes/{some_id()}/open HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\n\r\n".encode()
    for reader, writer in (old, await connect(door)):
        writer.write(request)
        head = await answer(reader)
        assert ("503" in head, "Connection: close" in head) == (True, True)
        assert await reader.read() == b""
        writer.close()
    one.stop.at_once.set()
    await one.task


async def test_one_that_is_replaced_leaves_as_soon_as_its_clients_have(door: Door) -> None:
    """Its listening socket is inherited, and the next gateway is ready before it stops: who connects finds that one."""
    (kept,) = listening.listen("127.0.0.1", 0)
    port = kept.getsockname()[1]

    async def gateway() -> Stopping:
        reads, writes = os.pipe()
        one = Stopping(
            door, drain_s=600, listen=f"127.0.0.1:{port}", listen_fds=str(kept.dup().detach()), ready_fd=writes
        )
        await asyncio.to_thread(os.read, reads, 10)
        os.close(reads)
        return one

    first = await gateway()
    door.url = f"http://127.0.0.1:{port}"
    assert (await door.call("GET", "/readyz", None))[0] == 200
    second = await gateway()
    first.stop.set()
    await door.session.close()  # whose idle connection it would wait for
    await first.task
    reader, writer = await connect(door)
    writer.write(HEALTH)
    head = await answer(reader)
    assert ("200 OK" in head, "Connection: close" in head) == (True, False)
    writer.close()
    second.stop.set_at_once()
    await second.task
    kept.close()


async def test_connections_wait_at_a_door_that_is_kept(door: Door) -> None:
    """One process has left, the next is still to come: who connects meanwhile is answered by it."""
    (kept,) = listening.listen("127.0.0.1", 0)
    port = kept.getsockname()[1]
    door.url = f"http://127.0.0.1:{port}"
    reader, writer = await connect(door)
    writer.write(HEALTH)
    one = Stopping(door, listen=f"127.0.0.1:{port}", listen_fds=str(kept.dup().detach()))
    assert "200 OK" in await answer(reader)
    writer.close()
    one.stop.set_at_once()
    await one.task
    kept.close()


async def test_an_old_connection_ends_with_an_answer(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that clients come to gateways that were started later; nothing is lost by it."""
    monkeypatch.setattr("gateway.connection.CONNECTION_AGE_S", 0.0)
    reader, writer = await connect(door)
    writer.write(HEALTH)
    assert "Connection: close" not in await answer(reader)
    writer.write(HEALTH)
    assert "Connection: close" in await answer(reader)
    assert await reader.read() == b""
    writer.close()


async def test_a_drain_lasts_as_long_as_it_is_set_to(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """A balancer needs that time to notice, though no client is left; the newcomers that are there get theirs."""
    waited: list[float] = []

    async def passed(_: Acceptor, holds: Callable[[], bool], seconds: float, at_once: asyncio.Event) -> None:
        assert not at_once.is_set()
        waited.append(seconds)
        assert holds() == (len(waited) == 1), waited

    one = await stopping(door, drain_s=7)
    await door.session.close()
    await door.until(lambda: not len(one.gateway.bounds))
    with monkeypatch.context() as patched:
        patched.setattr(Acceptor, "_while", passed)
        one.stop.set()
        await one.task
    assert waited[0] == 7


@pytest.mark.parametrize("numbers", ["x", "999999", "0"])
def test_what_is_no_listening_socket_is_refused(numbers: str) -> None:
    """By a sentence that names the setting's value."""
    with pytest.raises(Refused, match=f"'{numbers}' are no listening sockets"):
        listening.inherited(numbers)


async def test_connections_end_a_few_at_a_time(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """Halfway through the time for it half of them have been told; at its end all."""
    one = await stopping(door, drain_s=600)
    clients = [await connect(door) for _ in range(20)]
    for reader, writer in clients:
        writer.write(HEALTH)
        await answer(reader)
    connections = [held(writer) for _, writer in clients]
    began = asyncio.get_running_loop().time()
    now = [began]
    told: list[int] = []

    async def looks(acceptor: Acceptor, holds: Callable[[], bool], *_: object) -> None:
        for part in (0.0, 0.5, 1.0):
            now[0] = began + part * 600 * DRAIN_SPREAD
            holds()
            told.append(sum(connection.last for connection in connections))

    with monkeypatch.context() as patched:
        patched.setattr(Acceptor, "_while", looks)
        patched.setattr("gateway.acceptor.Acceptor._now", lambda _: now[0])
        one.stop.set()
        await one.task
    assert told[0] == 0
    assert 8 <= told[1] <= 12
    assert told[2] == 20
    for _, writer in clients:
        writer.close()
