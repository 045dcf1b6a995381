"""The door for tests: `stack` is all real parts behind it, `door` a gateway in this loop before scripted peers.

The scripted ones commit faults that a real part would not commit on demand. `stack` is one for all modules
(tests/integration/conftest.py); what else a test module uses it imports, and names it in `__all__`.
"""

import asyncio
import contextlib
import itertools
import json
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio
from aiohttp import web

from client import Envelope, calls
from client.calls import Call, Named
from envelope.outcomes import Outcome
from gateway import routes
from gateway.identity.tokens import make_token
from gateway.openapi.operations import OPERATIONS
from gateway.openapi.refusals import NO_ROUTE_CODES, by_status
from gateway.service import Gateway, GatewaySettings
from gateway.service import running as running_gateway
from installation.access import Access
from installation.finding import find
from local import play
from local.config import StackConfig
from local.stack import Stack
from machine.account import Account
from runtime.clock import SystemClock
from runtime.http import HttpServer
from sharding.ids import business_date, make_id
from sharding.topology import ServerSpec, SetSpec, Topology, dump
from tests.conftest import _passable_folder
from tests.link_keys import GATEWAY_KEY, AnyServer
from wire.handshake import Doorkeeper
from wire.load import Load
from wire.messages import Op
from wire.server import Caller, add_link

KEY = "k" * 32
METRICS_KEY = "m" * 32
INDEX = {outcome: number for number, outcome in enumerate(Outcome)}
WAIT_S = 10.0
SHOWN = {
    "status": "open", "kind": "lucky", "split": "double_mean", "split_version": 1, "split_commitment": "0" * 64,
    "total_fen": 100, "count": 2, "greeting": "", "password_required": False, "created_at": "2026-11-26T00:00:00.000Z",
    "opens_at": "2026-11-26T00:00:00.000Z", "expires_at": "2026-11-27T00:00:00.000Z",
}  # fmt: skip
"""What a scripted server shows of a new envelope, whatever its terms."""


def check_documented(method: str, path: str, status: int, told: Any) -> None:
    """Hold every answer that any test hears against what the OpenAPI document says of its route."""
    template, _ = routes.resolve(path.partition("?")[0]) or ("", "")
    name = routes.METHODS.get(template, {}).get(method)
    if method == "HEAD":
        return
    if name is None:
        assert told["code"] in NO_ROUTE_CODES
    elif status not in OPERATIONS[name].answers:
        assert told["code"] in by_status(name)[status], f"{name} answers {status} {told['code']}, which is not said"


class Client:
    """Speaks HTTP to one gateway, raw by purpose; `call` and `send` return (status, headers, JSON).

    These tests hold each answer against the document, look at headers and at members that must be missing, and hear of
    every refusal at once: `client.Hongbao` would repeat, throw or decode that away. What is sent is the client's as far
    as it has a call (`send`); `call` is for what the client never sends: share tokens, wrong paths, bodies and tokens.
    """

    def __init__(self, url: str, token: Callable[[str], str], session: aiohttp.ClientSession) -> None:
        self.url = url
        self.token = token
        self.session = session

    async def call(
        self, method: str, path: str, user: str | None = "alice", body: Any = None, **headers: str
    ) -> tuple[int, Any, Any]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if user is not None:
            sent.setdefault("Authorization", f"Bearer {self.token(user)}")
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        async with self.session.request(method, self.url + path, data=data, headers=sent) as answer:
            text = await answer.read()
            is_json = answer.content_type in ("application/json", "application/problem+json")
            told = json.loads(text) if is_json and text else text
            check_documented(method, path, answer.status, told)
            return answer.status, answer.headers, told

    async def send(self, call: Call[Any], user: str = "alice", **headers: str) -> tuple[int, Any, Any]:
        """Send one of the client's calls."""
        return await self.call(call.method, call.path, user, call.body or None, **call.headers, **headers)

    async def create(self, user: str = "alice", key: str | None = None, **terms: Any) -> Envelope:
        status, _, made = await self.send(calls.create(idempotency_key=key, **terms), user)
        assert status == 201, made
        return msgspec.convert(made, Envelope)

    async def open(self, user: str, envelope: Named, password: str | None = None) -> dict[str, Any]:
        """Return the result as it is in the answer: tests compare which members it has."""
        status, _, told = await self.send(calls.open_(envelope, password=password), user)
        assert status == 200, told
        return told

    async def grab(self, user: str, envelope: Named) -> dict[str, Any]:
        status, _, told = await self.send(calls.grab(envelope), user)
        assert status == 200, told
        return told


@contextlib.asynccontextmanager
async def client_of(url: str, token: Callable[[str], str]) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
        yield Client(url, token, session)


class RealStack:
    """A running stack."""

    def __init__(self, url: str, access: Access, data: Path) -> None:
        self.gateway_url = url
        self.data = data
        self.token = access.token
        self._access = access

    async def deposit(self, user: str, fen: int) -> None:
        async with self._access.wallet() as wallet:
            await wallet.deposit(f"D{uuid.uuid4().hex}", user, fen)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def stack(account: Account) -> AsyncIterator[RealStack]:
    """Two SETs of one server each, wallet and gateway: real processes, one stack for all tests."""
    with _passable_folder(account) as folder:
        config = StackConfig(
            data=folder / "data",
            port=0,
            servers=1,
            slots=40,
            ahead_days=1,
            play_users=play.NAMES,
            notify=lambda _: None,
        )
        async with Stack(config) as up:
            access = find(folder / "data")
            await play.give_money(access, play.NAMES)
            yield RealStack(up.gateway_url, access, folder / "data")


@pytest.fixture
async def client(stack: RealStack) -> AsyncIterator[Client]:
    async with client_of(stack.gateway_url, stack.token) as one:
        yield one


Answering = Callable[[Caller, int, int, list[Any]], None]


class FakePeer:
    """A setnode server or the wallet as the link sees it: notes what it is asked and answers as `answer` says."""

    def __init__(self, answer: Answering | None = None) -> None:
        self.asked: list[tuple[int, list[Any]]] = []
        self.answer: Answering = answer or opened
        self.port = 0
        self.load = Load()
        """Its callers: a test may tell them how long requests wait here."""
        self._server: HttpServer | None = None
        self._beating: asyncio.Task[None] | None = None

    def handle(self, peer: Caller, number: int, op: int, args: list[Any]) -> None:
        self.asked.append((op, args))
        self.answer(peer, number, op, args)

    async def start(self) -> None:
        app = web.Application()
        add_link(app, self, Doorkeeper(AnyServer()), self.load)
        self._server = HttpServer(app, "127.0.0.1", self.port)
        await self._server.__aenter__()
        self.port = self._server.port
        self._beating = asyncio.ensure_future(self.load.service().run())

    async def stop(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait({self._beating})
        if self._server is not None:
            server, self._server = self._server, None
            await server.__aexit__()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def opened(peer: Caller, number: int, op: int, args: list[Any]) -> None:
    """Answer as a SET with endless shares."""
    if op in (Op.OPEN, Op.GRAB):
        peer.reply(number, INDEX[Outcome.OPENED], 100, 0, False, None)
    elif op == Op.CREATE:
        made = {**SHOWN, "envelope_id": str(args[3][0]), "sender": args[0]}
        peer.reply(number, False, args[3][0], msgspec.json.encode(made))
    elif op == Op.BALANCE:
        peer.reply(number, 500)
    else:
        shown = msgspec.json.encode({"envelope_id": str(args[0]), "sender": "alice"})
        peer.reply(number, shown, args[1] == "alice", "1-0")


def silent(peer: Caller, number: int, op: int, args: list[Any]) -> None:
    """Never answer."""


class Door(Client):
    """A gateway in this loop before two servers of one SET and a wallet, all scripted."""

    gateway: Gateway
    servers: dict[str, FakePeer]
    wallet: FakePeer
    topology: Path

    def write_topology(self, version: int, **urls: str) -> None:
        servers = tuple(ServerSpec(name, url) for name, url in urls.items())
        dump(Topology(version, 100, (SetSpec("set-1", servers),), self.wallet.url), self.topology)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not holds():
                await asyncio.sleep(0.01)

    async def until_ready(self) -> None:
        async with asyncio.timeout(WAIT_S):
            while (await self.call("GET", "/readyz", None))[0] != 200:
                await asyncio.sleep(0.01)


_serials = itertools.count(1)


def some_id() -> str:
    """An ID of today that nobody has used."""
    return str(make_id(business_date(SystemClock().now()), next(_serials), 7))


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    servers, wallet = {"a": FakePeer(), "b": FakePeer()}, FakePeer()
    for peer in (*servers.values(), wallet):
        await peer.start()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
        one = Door("", lambda user: make_token(KEY, user, ttl_s=3600, clock=SystemClock()), session)
        one.servers, one.wallet, one.topology = servers, wallet, tmp_path / "topology.json"
        one.write_topology(1, a=servers["a"].url, b=servers["b"].url)
        settings = GatewaySettings(
            listen="127.0.0.1:0", topology=str(one.topology), wallet_url=wallet.url,
            link_key=GATEWAY_KEY.text, token_key=KEY, share_key=KEY, slot_key=KEY,
            metrics_key=METRICS_KEY,
        )  # fmt: skip
        async with running_gateway(settings) as gateway:
            one.gateway, one.url = gateway, f"http://127.0.0.1:{gateway.port}"
            await one.until_ready()
            yield one
    for peer in (*servers.values(), wallet):
        await peer.stop()
