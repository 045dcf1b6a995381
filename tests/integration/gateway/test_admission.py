"""Too many come: who is refused, what they hear, and that a refusal costs nobody else anything."""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator

import pytest

from envelope.outcomes import Outcome
from gateway.admission.line import Line
from gateway.admission.reason import Reason
from gateway.admission.threshold import Threshold
from gateway.connection import Connection
from gateway.limits import PLACES, RETRY_S
from gateway.newcomers import Newcomer
from gateway.service import GatewaySettings
from gateway.service import running as running_gateway
from machine.ports import free_port
from runtime import metrics
from tests.integration.gateway.fixtures import INDEX, KEY, Door, FakePeer, door, silent, some_id
from tests.link_keys import GATEWAY_KEY
from wire.messages import Op

__all__ = ["door"]
WAIT_S = 10.0
GOOD = {"kind": "lucky", "total_fen": 1_000, "count": 10}


@pytest.fixture
def line(door: Door) -> Line:
    admission = door.gateway.admission
    assert admission is not None
    return admission.line


@pytest.fixture
def nobody(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """The threshold admits nobody but what is always served, and does not move."""
    monkeypatch.setattr(Threshold, "adjust", lambda *_, **__: None)
    line._threshold.limited, line._threshold.level = True, PLACES


class Raw:
    """One raw connection: sends bytes, reads whole answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def head(self) -> tuple[int, dict[str, str]]:
        async with asyncio.timeout(WAIT_S):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        status, *lines = head.strip().split("\r\n")
        return int(status.split(" ")[1]), dict(line.split(": ", 1) for line in lines)

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        status, headers = await self.head()
        async with asyncio.timeout(WAIT_S):
            return status, headers, await self._reader.readexactly(int(headers["Content-Length"]))

    async def ended(self) -> bool:
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(WAIT_S):
                return await self._reader.read() == b""
        return True


@contextlib.asynccontextmanager
async def connected(port: int) -> AsyncIterator[Raw]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Raw(reader, writer)
    finally:
        writer.close()


def opening(door: Door, *lines: str, version: str = "1.1", user: str = "alice", method: str = "POST") -> bytes:
    """Return an open without a body."""
    head = [f"{method} /v1/envelopes/{some_id()}/open HTTP/{version}", "Host: x"]
    head += [f"Authorization: Bearer {door.token(user)}", *lines]
    return ("\r\n".join(head) + "\r\n\r\n").encode()


def asked(door: Door) -> int:
    return sum(len(peer.asked) for peer in (*door.servers.values(), door.wallet))


def refused(reason: Reason) -> float:
    text = metrics.render().decode()
    lines = [one for one in text.splitlines() if one.startswith("hongbao_refused_total{") and reason.value in one]
    return sum(float(one.rpartition(" ")[2]) for one in lines)


@pytest.mark.usefixtures("nobody")
async def test_what_a_refused_client_hears(door: Door) -> None:
    """503 busy, as any other problem: code, advice, seconds to wait, a request ID, and `result` where it has one."""
    before = refused(Reason.PRIORITY)
    waits = set()
    for path in (f"/v1/envelopes/{some_id()}/open", f"/v1/envelopes/{some_id()}/grab", "/v1/me/wallet"):
        status, headers, told = await door.call("GET" if "me" in path else "POST", path)
        assert (status, told["code"], told["retry"], told["status"]) == (503, "busy", "later", 503)
        assert headers["Content-Type"] == "application/problem+json"
        assert headers["X-Request-Id"] == told["request_id"]
        assert told.get("result") == (None if "me" in path else "busy")
        waits.add(int(headers["Retry-After"]))
    assert waits == set(RETRY_S)
    assert asked(door) == 0
    await door.gateway._publish_counts()
    assert refused(Reason.PRIORITY) == before + 3


@pytest.mark.usefixtures("nobody")
async def test_what_is_always_served(door: Door) -> None:
    """Cancels give money back; health, readiness and what no route has are served as ever."""
    assert (await door.call("POST", f"/v1/envelopes/{some_id()}/cancel"))[0] == 200
    assert (await door.call("GET", "/healthz", None))[0] == 200
    assert (await door.call("GET", "/readyz", None))[0] == 200
    assert (await door.call("GET", "/no/such/path"))[0] == 404


@pytest.mark.usefixtures("nobody")
async def test_a_create_is_refused_before_its_body_is_read(door: Door) -> None:
    """Whether the body has come or not, however long it is; the connection goes on behind it."""
    body = json.dumps(GOOD).encode()
    head = f"POST /v1/envelopes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {door.token('alice')}\r\n"
    key = f"Idempotency-Key: {uuid.uuid4().hex}\r\nContent-Type: application/json\r\n"
    for content, pieces in (
        (body, 1), (body, 2), (b"not json", 1), (b'{"kind":"' + b"x" * 30_000 + b'"}', 3)
    ):  # fmt: skip
        async with connected(door.gateway.port) as one:
            request = f"{head}{key}Content-Length: {len(content)}\r\n\r\n".encode() + content
            step = len(request) // pieces + 1
            for begin in range(0, len(request), step):
                one.send(request[begin : begin + step])
                await asyncio.sleep(0.02)
            status, _, told = await one.answer()
            assert (status, json.loads(told)["code"]) == (503, "busy")
            one.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await one.answer())[0] == 200
    assert asked(door) == 0


@pytest.mark.usefixtures("nobody")
@pytest.mark.parametrize("lines", [("Connection: close",), ("Transfer-Encoding: chunked",)])
async def test_a_refusal_ends_a_connection_that_ends(door: Door, lines: tuple[str, ...]) -> None:
    """What the client asked for, or what framing demands, holds for a refusal as for any answer."""
    async with connected(door.gateway.port) as one:
        one.send(opening(door, *lines) + (b"0\r\n\r\n" if "chunked" in lines[0] else b""))
        status, headers, _ = await one.answer()
        assert (status, headers["Connection"]) == (503, "close")
        assert await one.ended()


@pytest.mark.usefixtures("nobody")
async def test_a_refusal_of_an_old_client_ends_its_connection(door: Door) -> None:
    """HTTP/1.0 without keep-alive."""
    async with connected(door.gateway.port) as one:
        one.send(opening(door, version="1.0"))
        assert (await one.answer())[0] == 503
        assert await one.ended()


async def test_refused_on_a_new_connection_and_then_served_on_it(door: Door, line: Line, nobody: None) -> None:
    """A connection that has only been refused is a socket and no more; the first served request makes it whole."""
    threshold, others = line._threshold, len(door.gateway.bounds)
    async with connected(door.gateway.port) as one:
        for _ in range(3):
            one.send(opening(door))
            assert (await one.answer())[0] == 503
        assert asked(door) == 0
        threshold.limited = False
        for _ in range(2):
            one.send(opening(door))
            status, _, told = await one.answer()
            assert (status, json.loads(told)["result"]) == (200, "opened")
        threshold.limited = True
        one.send(opening(door))
        assert (await one.answer())[0] == 503
    await door.until(lambda: len(door.gateway.bounds) == others)


async def test_answers_come_in_order_with_refusals_among_them(door: Door, line: Line, nobody: None) -> None:
    """Requests that were sent at once, in a packet or drop by drop: each is answered in its turn."""
    health = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    expected = [200, 503, 503, 200, 503, 200]
    for first, pieces in ((b"", 1), (b"", 7), (health, 1), (health, 7)):
        async with connected(door.gateway.port) as one:
            if first:
                one.send(first)
                assert (await one.answer())[0] == 200
            request = b"".join(health if status == 200 else opening(door) for status in expected)
            step = len(request) // pieces + 1
            for begin in range(0, len(request), step):
                one.send(request[begin : begin + step])
                await asyncio.sleep(0.005)
            assert [(await one.answer())[0] for _ in expected] == expected
    assert asked(door) == 0


async def test_a_user_who_was_told_openable_goes_first(door: Door, line: Line, nobody: None) -> None:
    """While other opens are refused, theirs is served."""
    threshold, envelope_id = line._threshold, some_id()
    for peer in door.servers.values():
        peer.answer = lambda peer, number, op, args: peer.reply(
            number, INDEX[Outcome.OPENABLE if op == Op.GRAB else Outcome.OPENED], 0, -1, False, None
        )
    threshold.limited = False
    assert (await door.call("POST", f"/v1/envelopes/{envelope_id}/grab"))[2]["result"] == "openable"
    threshold.limited, threshold.level = True, 2 * PLACES
    assert (await door.call("POST", f"/v1/envelopes/{envelope_id}/open", "bob"))[0] == 503
    assert (await door.call("POST", f"/v1/envelopes/{envelope_id}/open"))[0] == 200
    assert (await door.call("POST", f"/v1/envelopes/{some_id()}/open"))[0] == 503


async def test_a_full_line_refuses_unread(door: Door, line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line has no room: a new client, and one that is known, hear `busy` at once; health is served."""
    # The bound is not set anew meanwhile.
    monkeypatch.setattr(Line, "adjust", lambda _: None)
    async with connected(door.gateway.port) as known:
        known.send(opening(door))
        assert (await known.answer())[0] == 200
        before = asked(door)
        monkeypatch.setattr(line, "_most", 0)
        known.send(opening(door))
        assert (await known.answer())[0] == 503
        async with connected(door.gateway.port) as new:
            new.send(opening(door))
            assert (await new.answer())[0] == 503
        assert asked(door) == before
        assert (await door.call("GET", "/healthz", None))[0] == 200


async def test_with_a_request_on_every_connection_a_new_client_hears_so_at_once(door: Door) -> None:
    """At the bound of connections no idle one is left to be ended: 503, and the connection is closed."""
    for peer in door.servers.values():
        peer.answer = silent
    settings = door.gateway.settings
    limited = GatewaySettings(
        listen="127.0.0.1:0", topology=settings.topology, wallet_url=settings.wallet_url, link_key=GATEWAY_KEY.text,
        token_key=KEY, share_key=KEY, slot_key=KEY, connections=3,
    )  # fmt: skip
    async with running_gateway(limited) as gateway, contextlib.AsyncExitStack() as stack:
        door.url = f"http://127.0.0.1:{gateway.port}"
        await door.until(lambda: gateway.readiness.missing() == [])
        for _ in range(3):
            one = await stack.enter_async_context(connected(gateway.port))
            one.send(opening(door))
        await door.until(lambda: gateway.request_metrics.in_flight == 3)
        async with connected(gateway.port) as late:
            status, headers, told = await late.answer()
            assert (status, headers["Connection"], json.loads(told)["code"]) == (503, "close", "busy")
            assert await late.ended()
        assert len(gateway.bounds) == 3


@contextlib.asynccontextmanager
async def held_up(line: Line, stood_s: float = 0.05) -> AsyncIterator[None]:
    """For the block nothing begins; at its end those in line have stood there for `stood_s`, and their turn comes."""
    line._left, line._turning = 0, True
    yield
    for one in line._waiting:
        one.arrived_at -= stood_s
    line._next_turn()


async def test_who_waits_no_longer_is_not_begun(door: Door, line: Line) -> None:
    """A client may say how long it waits, on a new connection or a known one; others are served after the same wait."""
    async with connected(door.gateway.port) as known, connected(door.gateway.port) as new:
        known.send(opening(door))
        assert (await known.answer())[0] == 200
        before = asked(door)
        for one in (known, new):
            for waits_ms, status in ((30, 503), (5_000, 200), (None, 200)):
                async with held_up(line):
                    one.send(opening(door, *([f"X-Request-Timeout-Ms: {waits_ms}"] if waits_ms else [])))
                    await door.until(lambda: len(line) == 1)
                assert (await one.answer())[0] == status, waits_ms
        assert asked(door) == before + 4


async def test_what_came_behind_a_request_that_is_refused_in_line_is_answered(door: Door, line: Line) -> None:
    """Two requests in one packet: the first has waited too long, the second is served in its turn."""
    async with connected(door.gateway.port) as one:
        one.send(opening(door))
        assert (await one.answer())[0] == 200
        async with held_up(line):
            one.send(opening(door, "X-Request-Timeout-Ms: 30") + opening(door))
            await door.until(lambda: len(line) == 1)
        assert [(await one.answer())[0] for _ in range(2)] == [503, 200]


async def test_what_is_always_served_is_served_however_long_it_stood_in_line(door: Door, line: Line) -> None:
    """A cancel, health, and bytes that are no request at all: late, and with the answer that they always have."""
    for sent, status in (
        (opening(door).replace(b"/open", b"/cancel"), 200),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 200),
        (b"NO HTTP AT ALL\r\n\r\n", 400),
    ):
        async with connected(door.gateway.port) as one:
            one.send(opening(door))
            assert (await one.answer())[0] == 200
            async with held_up(line, 3.0):
                one.send(sent)
                await door.until(lambda: len(line) == 1)
            assert (await one.answer())[0] == status


async def test_a_stop_answers_what_has_been_admitted(door: Door) -> None:
    """A gateway that stops as the first request of a new connection begins: the client hears its outcome."""
    settings = door.gateway.settings
    stopping = GatewaySettings(
        listen="127.0.0.1:0", topology=settings.topology, wallet_url=settings.wallet_url, link_key=GATEWAY_KEY.text,
        token_key=KEY, share_key=KEY, slot_key=KEY,
    )  # fmt: skip
    async with contextlib.AsyncExitStack() as stack:
        async with running_gateway(stopping) as gateway:
            await door.until(lambda: gateway.readiness.missing() == [])
            admission = gateway.admission
            assert admission is not None
            clients = [await stack.enter_async_context(connected(gateway.port)) for _ in range(3)]
            await door.until(lambda: len(gateway.bounds) == len(clients))
            admission.line._left, admission.line._turning = 0, True
            for one in clients:
                one.send(opening(door))
            await door.until(lambda: len(admission.line) == len(clients))
            # They begin, and the stop comes before their connections are whole.
            admission.line._next_turn()
        assert [(await one.answer())[0] for one in clients] == [200] * len(clients)


async def limited(door: Door, *, holds: bool) -> None:
    admission = door.gateway.admission
    assert admission is not None
    await door.until(lambda: admission.levels.limited is holds)


async def test_one_server_that_is_behind_costs_only_its_own_requests(door: Door) -> None:
    """It says that requests wait 200 ms: opens of its envelopes are refused, those of the other server are served."""
    slow, well = door.servers["a"], door.servers["b"]
    envelope_of = {}
    for _ in range(40):
        envelope_id = some_id()
        await door.call("POST", f"/v1/envelopes/{envelope_id}/open")
        for peer in (slow, well):
            if any(args[0] == int(envelope_id) for _, args in peer.asked):
                envelope_of[peer] = envelope_id
    assert len(envelope_of) == 2
    telling = asyncio.ensure_future(tell(slow, [200, 0]))
    await limited(door, holds=True)
    async with asyncio.timeout(WAIT_S):
        while (await door.call("POST", f"/v1/envelopes/{envelope_of[slow]}/open"))[0] != 503:
            await asyncio.sleep(0.01)
    before = len(slow.asked)
    for _ in range(20):
        assert (await door.call("POST", f"/v1/envelopes/{envelope_of[well]}/open"))[0] == 200
    assert (await door.call("GET", "/v1/me/wallet"))[0] == 200
    assert len(slow.asked) == before
    telling.cancel()
    async with asyncio.timeout(WAIT_S):
        while (await door.call("POST", f"/v1/envelopes/{envelope_of[slow]}/open"))[0] != 200:
            await asyncio.sleep(0.05)


async def test_a_wallet_that_is_behind_costs_creates_alone(door: Door) -> None:
    """Creates wait at it, opens do not ask it."""
    telling = asyncio.ensure_future(tell(door.wallet, [200]))
    await limited(door, holds=True)
    async with asyncio.timeout(WAIT_S):
        while (await create(door)) != 503:
            await asyncio.sleep(0.01)
    for _ in range(10):
        assert (await door.call("POST", f"/v1/envelopes/{some_id()}/open"))[0] == 200
        assert await create(door) == 503
    telling.cancel()


async def test_a_server_that_is_cut_off_from_its_database_is_passed_over(door: Door) -> None:
    """Its envelopes go to the other one while only that is answered; if the database answers neither, they stay."""
    cut_off, other = door.servers["a"], door.servers["b"]

    async def asked_of_cut_off() -> int:
        cut_off.asked.clear()
        other.asked.clear()
        for _ in range(20):
            assert (await door.call("POST", f"/v1/envelopes/{some_id()}/open"))[0] == 200
        assert len(cut_off.asked) + len(other.asked) == 20
        return len(cut_off.asked)

    assert await asked_of_cut_off()
    telling = [asyncio.ensure_future(tell(cut_off, [0, 0, 3000]))]
    async with asyncio.timeout(WAIT_S):
        while await asked_of_cut_off():
            await asyncio.sleep(0.05)
    telling.append(asyncio.ensure_future(tell(other, [0, 0, 3000])))
    async with asyncio.timeout(WAIT_S):
        while not await asked_of_cut_off():
            await asyncio.sleep(0.05)
    telling.pop().cancel()
    async with asyncio.timeout(WAIT_S):
        while await asked_of_cut_off():
            await asyncio.sleep(0.05)
    telling.pop().cancel()
    async with asyncio.timeout(WAIT_S):
        while not await asked_of_cut_off():
            await asyncio.sleep(0.05)


async def create(door: Door) -> int:
    status, _, _ = await door.call("POST", "/v1/envelopes", body=GOOD, Idempotency_Key=uuid.uuid4().hex)
    return status


async def tell(peer: FakePeer, waits_ms: list[int]) -> None:
    """Say again and again how long requests wait at a peer."""
    while True:
        for caller in peer.load.callers:
            caller.tell_load(waits_ms)
        await asyncio.sleep(0.02)


async def test_gateways_of_a_host_are_one_address(door: Door) -> None:
    """Two gateways listen at one port beside their own; clients reach both by it, and each by its own."""
    shared = free_port()
    settings = GatewaySettings(
        listen="127.0.0.1:0", shared_listen=f"127.0.0.1:{shared}", topology=door.gateway.settings.topology,
        wallet_url=door.wallet.url, link_key=GATEWAY_KEY.text, token_key=KEY, share_key=KEY, slot_key=KEY,
    )  # fmt: skip
    async with (
        running_gateway(settings) as one,
        running_gateway(settings) as other,
        contextlib.AsyncExitStack() as stack,
    ):
        await door.until(lambda: one.readiness.missing() == other.readiness.missing() == [])
        for _ in range(40):
            client = await stack.enter_async_context(connected(shared))
            client.send(opening(door))
            assert (await client.answer())[0] == 200
        assert len(one.bounds) > 0
        assert len(other.bounds) > 0
        assert len(one.bounds) + len(other.bounds) == 40
        for gateway in (one, other):
            async with connected(gateway.port) as client:
                client.send(opening(door))
                assert (await client.answer())[0] == 200


@pytest.mark.usefixtures("nobody")
async def test_an_idle_connection_that_was_only_refused_is_ended(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """After KEEP_ALIVE_S, as any other; one that asks again stays."""
    async with connected(door.gateway.port) as one:
        one.send(opening(door))
        assert (await one.answer())[0] == 503
        await door.gateway.bounds.sweep()
        one.send(opening(door))
        assert (await one.answer())[0] == 503
        monkeypatch.setattr(Newcomer, "kept_s", 0.0)
        await door.gateway.bounds.sweep()
        assert await one.ended()


async def test_a_new_connection_that_fails_harms_nobody_else(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody expected while it was read ends it alone; who speaks in the same turn is answered."""
    readable, failed = Newcomer.readable, []

    def fails_once(self: Newcomer) -> None:
        if not failed:
            failed.append(self)
            raise RuntimeError("what nobody expected")
        readable(self)

    monkeypatch.setattr(Newcomer, "readable", fails_once)
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(door.gateway.port)) for _ in range(5)]
        await door.until(lambda: len(door.gateway.bounds) >= 5)
        for one in clients:
            one.send(opening(door))
        ended = 0
        for one in clients:
            try:
                assert (await one.answer())[0] == 200
            except (asyncio.IncompleteReadError, ConnectionError):
                ended += 1
    assert ended == 1
    await door.until(lambda: failed[0] not in door.gateway.bounds.all())


async def test_a_request_in_line_is_not_idle(door: Door, line: Line) -> None:
    """The timer of idle connections fires while its request stands in line: it is answered all the same."""
    async with connected(door.gateway.port) as one:
        one.send(opening(door))
        assert (await one.answer())[0] == 200
        async with held_up(line):
            one.send(opening(door))
            await door.until(lambda: len(line) == 1)
            waiting = line._waiting[0]
            assert isinstance(waiting, Connection)
            waiting._next_keepalive_close_time = 0.0
            waiting._process_keepalive()
            waiting.close()
        assert (await one.answer())[0] == 200


@pytest.mark.usefixtures("nobody")
async def test_a_refusal_that_takes_more_than_one_write_says_the_same(door: Door) -> None:
    """An open whose body comes in pieces, and a HEAD: the same problem, counted alike, without a body for HEAD."""
    body = json.dumps({"share_token": "x"}).encode()
    head = opening(door, "Content-Type: application/json", f"Content-Length: {len(body)}")
    before = refused(Reason.PRIORITY)
    async with connected(door.gateway.port) as one:
        one.send(head + body[:5])
        await asyncio.sleep(0.05)
        one.send(body[5:])
        status, headers, text = await one.answer()
        told = json.loads(text)
        assert (status, told["code"], told["result"]) == (503, "busy", "busy")
        assert headers["X-Request-Id"] == told["request_id"]
        assert int(headers["Retry-After"]) in RETRY_S
    async with connected(door.gateway.port) as one:
        one.send(opening(door, method="HEAD").replace(b"/open", b""))
        one.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await one.head())[0] == 503
        assert (await one.answer())[0] == 200
    await door.gateway._publish_counts()
    assert refused(Reason.PRIORITY) == before + 2
