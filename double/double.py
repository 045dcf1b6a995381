"""Starts a gateway before a SET and a wallet that are in memory, in this process, and moves their clock."""

import asyncio
import contextlib
import secrets
import tempfile
from collections.abc import AsyncIterator, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

from aiohttp import web

from client import Hongbao, Patience, User
from double.clock import MovableClock
from double.ledger import Ledger
from double.memory_set import MemorySet
from gateway.identity.token_keys import KEY_BYTES
from gateway.identity.tokens import make_token
from gateway.service import GatewaySettings, running
from runtime.http import HttpServer
from runtime.periodic import Periodic
from sharding.topology import ServerSpec, SetSpec, Topology, dump
from wire.handshake import Doorkeeper
from wire.keys import GATEWAY, WALLET, Accepted, root_key
from wire.load import Load
from wire.server import Handler, add_link

HOST: Final = "127.0.0.1"
SLOTS: Final = 100
LOOK_S: Final = 0.05
"""How often envelopes are looked for whose time is up."""
TOKEN_S: Final = 3_600
READY_S: Final = 10.0
_SERVER: Final = "a"


class Double:
    """Use it as `async with`; every one is empty, and all of it is gone at the end.

    `url` is the gateway's address, for programs that are tested as a whole; `hongbao` a client of it.
    """

    def __init__(
        self, *, patience: Patience | None = None, token_key: str | None = None, token_keys: Path | None = None
    ) -> None:
        """Give the keys of a program that signs its own tokens, so that they are good here.

        `token_key`: the text that it has as HONGBAO_TOKEN_KEY, 32 characters or more; `token_keys`: a JWKS file, as
        HONGBAO_TOKEN_KEYS names one. What `token` makes is good in any case. Raises ValueError for a key that is short.
        """
        if token_key is not None and len(token_key.encode()) < KEY_BYTES:
            raise ValueError(f"a token key has at least {KEY_BYTES} characters, as gateways ask for")
        self.clock = MovableClock()
        self.url = ""
        self._patience = patience
        self._ledger = Ledger(self.clock)
        self._exits = contextlib.AsyncExitStack()
        self._key = secrets.token_hex(32)
        self._token_key = token_key or self._key
        self._token_keys = token_keys
        self._set: MemorySet | None = None
        self._topology = Topology(1, SLOTS, (), "")
        self._hongbao: Hongbao | None = None

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as exits:
            folder = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="hongbao-double-")))
            self._set = one = MemorySet(
                self.clock, self._ledger, self._key.encode(), folder / "switches.json", lambda: self._topology
            )
            url, wallet_url = [
                await self._listen(exits, handler, name) for handler, name in ((one, _SERVER), (self._ledger, WALLET))
            ]
            self._topology = Topology(1, SLOTS, (SetSpec("set-1", (ServerSpec(_SERVER, url),)),), wallet_url)
            dump(self._topology, folder / "topology.json")
            for service in (one.watches.service(), Periodic("ended", one.close_ended, interval_s=LOOK_S)):
                await exits.enter_async_context(_running(service.run()))
            await self._serve(exits, folder / "topology.json", wallet_url)
            self._exits = exits.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._exits.aclose()

    @property
    def hongbao(self) -> Hongbao:
        """The client; raises RuntimeError outside of `async with`."""
        if self._hongbao is None:
            raise RuntimeError("use `async with Double() as double`")
        return self._hongbao

    def user(self, name: str) -> User:
        """Return a user of this name; whoever is named is known."""
        return self.hongbao.user(lambda: self.token(name))

    def token(self, name: str) -> str:
        """Return a bearer token, good for an hour of this clock, as the service of an app makes it for its users."""
        return make_token(self._token_key, name, ttl_s=TOKEN_S, clock=self.clock)

    def deposit(self, name: str, fen: int) -> None:
        """Give a user money; raises ValueError unless a wallet would take it."""
        self._ledger.deposit(name, fen)

    async def advance(self, by: timedelta) -> None:
        """Move the clock ahead, and return once every envelope whose time is up then is closed and refunded.

        Tokens that were made before may have ended: `user` asks for new ones.
        """
        self.clock.advance(by)
        if self._set is not None:
            await self._set.close_ended()

    async def _listen(self, exits: contextlib.AsyncExitStack, handler: Handler, name: str) -> str:
        """Serve links; returns the address."""
        app = web.Application()
        load = Load()
        add_link(app, handler, Doorkeeper(Accepted(name, (root_key(self._key, GATEWAY, name),))), load)
        server = await exits.enter_async_context(HttpServer(app, HOST, 0))
        await exits.enter_async_context(_running(load.service().run()))
        return f"http://{HOST}:{server.port}"

    async def _serve(self, exits: contextlib.AsyncExitStack, topology: Path, wallet_url: str) -> None:
        settings = GatewaySettings(
            listen=f"{HOST}:0",
            topology=str(topology),
            wallet_url=wallet_url,
            link_key=root_key(self._key, GATEWAY).text,
            token_key=self._token_key,
            token_keys=str(self._token_keys or ""),
            share_key=self._key,
            slot_key=self._key[:32],
        )
        gateway = await exits.enter_async_context(running(settings, self.clock))
        async with asyncio.timeout(READY_S):
            while gateway.readiness.missing():
                await asyncio.sleep(0.005)
        self.url = f"http://{HOST}:{gateway.port}"
        self._hongbao = await exits.enter_async_context(Hongbao(self.url, patience=self._patience))


@contextlib.asynccontextmanager
async def _running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run something beside the block, and end it with the block."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
