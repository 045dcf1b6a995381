"""Clients who only connect, or ask slowly: what they may hold, and that honest ones are served meanwhile."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from errors import Refused
from gateway.connection_bounds import ConnectionBounds
from gateway.identity.proxies import TrustedProxies
from gateway.identity.tokens import make_token
from gateway.service import GatewaySettings
from gateway.service import running as running_gateway
from runtime.clock import SystemClock
from tests.integration.gateway.fixtures import KEY, Door, door, some_id
from tests.link_keys import GATEWAY_KEY

__all__ = ["door"]
WAIT_S = 10.0
TOKEN = make_token(KEY, "alice", ttl_s=3600, clock=SystemClock())
HEAD = f"GET /v1/me/wallet HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"


class Client:
    """One raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ended(self) -> bool:
        """Say whether the gateway ends it soon."""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(WAIT_S):
                return await self.reader.read() == b""
        return True

    async def ask(self, head: str = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") -> int:
        self.writer.write(head.encode())
        async with asyncio.timeout(WAIT_S):
            told = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            length = int(told.split("Content-Length: ")[1].split("\r\n")[0])
            await self.reader.readexactly(length)
        return int(told.split(" ")[1])


@contextlib.asynccontextmanager
async def clients(port: int, number: int) -> AsyncIterator[list[Client]]:
    made = [Client(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(number)]
    try:
        yield made
    finally:
        for one in made:
            one.writer.close()


@contextlib.asynccontextmanager
async def gateway_with(door: Door, **settings: object) -> AsyncIterator[int]:
    """Another gateway before the door's servers; yields its port."""
    told = GatewaySettings(
        listen="127.0.0.1:0", topology=str(door.topology), wallet_url=door.wallet.url, link_key=GATEWAY_KEY.text,
        token_key=KEY, share_key=KEY, slot_key=KEY, **settings,
    )  # fmt: skip
    async with running_gateway(told) as gateway:
        await door.until(lambda: not gateway.readiness.missing())
        yield gateway.port


async def test_a_client_that_asks_for_nothing_is_hung_up_on(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection without a request, with half a head or with a head that drips ends after HEAD_S; others go on."""
    monkeypatch.setattr("gateway.connection_bounds.HEAD_S", 0.5)
    async with clients(door.gateway.port, 5) as (silent, half, dripping, second, honest):
        assert await second.ask() == 200
        assert await honest.ask() == 200
        half.writer.write(HEAD.encode())
        second.writer.write(HEAD.encode())

        async def drip() -> None:
            with contextlib.suppress(ConnectionError):
                for letter in "GET / HTTP/1.1\r\nX-Long: " + "x" * 1_000:
                    dripping.writer.write(letter.encode())
                    await dripping.writer.drain()
                    await asyncio.sleep(0.05)

        dripped = asyncio.ensure_future(drip())
        assert all(await asyncio.gather(silent.ended(), half.ended(), dripping.ended(), second.ended()))
        dripped.cancel()
        await asyncio.wait({dripped})
        # Idle since its answer, for longer than HEAD_S: it keeps its connection.
        assert await honest.ask() == 200


async def test_a_head_in_pieces_that_comes_in_time_is_served(door: Door) -> None:
    """The limit is for the whole head; a slow client within it notices nothing."""
    async with clients(door.gateway.port, 1) as (one,):
        for piece in ("GET /hea", "lthz HTTP/1.1\r\n", "Host: x\r\n"):
            one.writer.write(piece.encode())
            await asyncio.sleep(0.05)
        assert await one.ask("\r\n") == 200


async def test_above_the_bound_the_idlest_are_hung_up_on(door: Door) -> None:
    """Whoever holds all connections silently loses the oldest of them, and a new client is served."""
    async with gateway_with(door, connections=8) as port, clients(port, 8) as held:
        assert await held[0].ask() == 200
        async with clients(port, 1) as (new,):
            assert await new.ask() == 200
            # The first of them has asked since, so the second has been idle longest.
            assert await held[1].ended()
            assert await held[0].ask() == 200


async def test_one_address_cannot_hold_all_connections(door: Door) -> None:
    """At the bound of its address a client ends its own connections, not those of others."""
    async with gateway_with(door, connections=100, connections_per_address=4) as port, clients(port, 4) as held:
        other = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
        async with clients(port, 4):
            assert all([await one.ended() for one in held])
            assert await Client(*other).ask() == 200
        other[1].close()


async def test_a_client_that_is_being_answered_is_not_hung_up_on(door: Door) -> None:
    """A request in progress keeps its connection, however many others come."""
    waiting: list[tuple] = []
    door.wallet.answer = lambda peer, number, *_: waiting.append((peer, number))
    async with gateway_with(door, connections=4) as port, clients(port, 1) as (asking,):
        answer = asyncio.ensure_future(asking.ask(HEAD + "\r\n"))
        await door.until(lambda: waiting)
        async with clients(port, 12):
            await asyncio.sleep(0.1)
            peer, number = waiting[0]
            peer.reply(number, 700)
            assert await answer == 200


async def test_one_forger_behind_a_trusted_proxy_stops_himself_alone(door: Door) -> None:
    """The address that a trusted proxy names is counted; what the client wrote before it is not believed."""
    async with gateway_with(door, rejected_tokens_per_s=1, trusted_proxies="127.0.0.1, 10.0.0.0/8") as port:

        def asks(forwarded: str, token: str) -> str:
            return HEAD.replace(TOKEN, token) + f"X-Forwarded-For: {forwarded}\r\n\r\n"

        door.wallet.answer = lambda peer, number, *_: peer.reply(number, 700)
        async with clients(port, 1) as (proxy,):
            told = [await proxy.ask(asks("203.0.113.5, 198.51.100.1", f"a.b.{n}")) for n in range(4)]
            assert told[0] == 401
            assert told[-1] == 429
            fresh = make_token(KEY, "bob", ttl_s=3600, clock=SystemClock())
            # The forger, whatever he writes in front of the address that the proxy has added; and somebody else.
            assert await proxy.ask(asks("203.0.113.77, 198.51.100.1, 10.1.2.3", fresh)) == 429
            assert await proxy.ask(asks("198.51.100.2", fresh)) == 200


async def test_a_client_that_is_no_proxy_of_ours_cannot_name_an_address(door: Door) -> None:
    """Without a trusted proxy the header is nothing: a forger does not escape by it."""
    async with gateway_with(door, rejected_tokens_per_s=1) as port, clients(port, 1) as (one,):
        heads = [HEAD.replace(TOKEN, f"a.b.{number}") for number in range(4)]
        told = [await one.ask(f"{head}X-Forwarded-For: 198.51.100.{n}\r\n\r\n") for n, head in enumerate(heads)]
        assert told[-1] == 429


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        ([], "127.0.0.1"),
        (["198.51.100.1"], "198.51.100.1"),
        (["203.0.113.5, 198.51.100.1"], "198.51.100.1"),
        (["203.0.113.5", "198.51.100.1, 10.0.0.9"], "198.51.100.1"),
        (["10.0.0.8, 10.0.0.9"], "127.0.0.1"),
        (["nonsense"], "127.0.0.1"),
        (["198.51.100.1, nonsense"], "127.0.0.1"),
        (["2001:db8::1"], "2001:db8::1"),
    ],
)
def test_the_client_is_the_last_address_that_is_no_proxy(forwarded: list[str], client: str) -> None:
    """Only what our own proxies have added counts."""
    assert TrustedProxies("127.0.0.1,10.0.0.0/8").client_of("127.0.0.1", forwarded) == client


def test_a_proxy_is_known_however_its_address_is_shown() -> None:
    """On a socket for both kinds an IPv4 proxy has a mapped address; nothing else is taken for it."""
    proxies = TrustedProxies("10.0.0.5, 2001:db8::/64")
    assert [proxies.trusts(one) for one in ("10.0.0.5", "::ffff:10.0.0.5", "2001:db8::7")] == [True] * 3
    assert not any(proxies.trusts(one) for one in ("10.0.0.6", "::ffff:10.0.0.6", "2001:db8:1::7", "", "nonsense"))


@pytest.mark.parametrize("setting", ["proxy.example", "10.0.0.0/33", "10.0.0.1 10.0.0.2"])
def test_a_proxy_that_is_no_address_is_refused_at_the_start(setting: str) -> None:
    """A misspelt network would trust nobody, or the wrong ones: the process does not start."""
    with pytest.raises(Refused, match="HONGBAO_TRUSTED_PROXIES"):
        TrustedProxies(setting)


def test_files_are_kept_for_links(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """However many connections are set, some files stay for the process itself."""
    monkeypatch.setattr("gateway.connection_bounds._files", lambda: 200)
    assert ConnectionBounds(16_384, 4_096, TrustedProxies(""))._most == 72
    monkeypatch.setattr("gateway.connection_bounds._files", lambda: 100)
    with pytest.raises(Refused, match="ulimit -n"):
        ConnectionBounds(16_384, 4_096, TrustedProxies(""))


async def test_a_body_in_several_packets_leaves_an_idle_connection(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of a body is no beginning of another head, for which the client would have ten seconds."""
    body = b'{"share_token":"x"}'
    head = HEAD.replace("GET /v1/me/wallet", f"POST /v1/envelopes/{some_id()}/open")
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    async with clients(door.gateway.port, 1) as (one,):
        one.writer.write(head.encode() + body[:5])
        await asyncio.sleep(0.05)
        assert await one.ask(body[5:].decode()) == 200
        monkeypatch.setattr("gateway.connection_bounds.HEAD_S", 0.0)
        for _ in range(2):
            await door.gateway.bounds.sweep()
        assert await one.ask() == 200


@pytest.mark.parametrize("version", ["HTTP/0.9", "HTTP/2.0", "HTTP/1.2", "HTTP/3.0"])
async def test_another_version_of_http_is_refused(door: Door, version: str) -> None:
    """A request line may name HTTP/1.0 or 1.1; what others would mean we do not know, and the connection ends."""
    async with clients(door.gateway.port, 1) as (one,):
        assert await one.ask(f"GET /healthz {version}\r\nHost: x\r\n\r\n") == 400
        assert await one.ended()


async def test_two_authorization_headers_are_refused(door: Door) -> None:
    """Which of them counts is a matter of taste of each proxy: neither does, and no SET is asked."""
    for first, second in ((TOKEN, "a.b.c"), (TOKEN, TOKEN)):
        async with clients(door.gateway.port, 1) as (one,):
            head = HEAD.replace(TOKEN, first) + f"authorization: Bearer {second}\r\n\r\n"
            assert await one.ask(head) == 400
            head = f"POST /v1/envelopes/{some_id()}/open" + head[head.index(" HTTP") :]
            assert (await one.ended()) or await one.ask(head) == 400
    assert all(peer.asked == [] for peer in (*door.servers.values(), door.wallet))


def test_an_ipv6_network_is_one_client() -> None:
    """Who has a whole network of addresses holds no more connections by using all of them."""

    class Idle:
        def __init__(self, address: str, since: float) -> None:
            self.address, self.idle_since = address, since
            self.asked = self.began = self.serving = self.ended = False
            self.began_at = None
            self.kept_s = 75.0

        def hang_up(self) -> None:
            self.ended = True

    bounds = ConnectionBounds(100, 3, TrustedProxies(""))
    held = [Idle(f"2001:db8::{n}", float(n)) for n in range(1, 5)]
    for one in (*held, other := Idle("2001:db8:0:1::1", 0.0)):
        bounds.add(one)
    assert [one.ended for one in held] == [True, False, False, False]
    assert not other.ended
    for one in (*held, other):
        bounds.remove(one)
    assert len(bounds) == 0
    assert bounds._by_address == {}
