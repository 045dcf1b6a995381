"""Wires the parts of one gateway together and runs them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import msgspec

from gateway.envelopes import Envelopes
from gateway.front import Front, Handler
from gateway.identity.rejections import Rejections
from gateway.identity.shares import Shares
from gateway.identity.tokens import KEY_BYTES, Tokens
from gateway.limits import COUNTS_S, REJECTIONS_PER_S
from gateway.pages import Pages
from gateway.sets import Sets
from gateway.traffic import Traffic
from gateway.wallets import Wallets
from runtime import logs
from runtime.clock import Clock, SystemClock
from runtime.http import HttpServer, Readiness
from runtime.periodic import Periodic
from runtime.settings import host_and_port
from wire.link import Link
from wire.wallet import WalletClient

_log = logs.get("gateway")

Key = Annotated[str, msgspec.Meta(min_length=KEY_BYTES)]


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Read from HONGBAO_*; see `runtime.settings`. All gateways of an installation have the same keys."""

    listen: str
    topology: str
    wallet_url: str
    link_key: str
    token_key: Key
    """Signs bearer tokens (JWT, HS256)."""
    share_key: Key
    """Makes share tokens; another one would make all that were handed out invalid."""
    slot_key: Annotated[str, msgspec.Meta(min_length=16, max_length=64)]
    """Finds the slot of a create; must not change while a create may be repeated."""
    rejected_tokens_per_s: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = REJECTIONS_PER_S
    """See `gateway.identity.rejections`; raise it where many clients come through one proxy."""


class Gateway:
    """The parts of one gateway. `run` owns every task."""

    def __init__(self, settings: GatewaySettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock = clock or SystemClock()
        self.traffic = Traffic()
        self.readiness = Readiness()
        self.wallet_link = Link("wallet", settings.wallet_url, key=settings.link_key)
        self.sets: Sets | None = None
        self.port = 0
        self.serving = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`; then take no new connections, answer what is in flight, leave."""
        async with asyncio.TaskGroup() as tasks:
            self.sets = sets = Sets(Path(self.settings.topology), self.settings.link_key, tasks)
            counts = Periodic("counts", self.traffic.publish, interval_s=COUNTS_S)
            running = [
                tasks.create_task(work)
                for work in (self.wallet_link.maintain(), *(one.run() for one in (counts, *sets.services)))
            ]
            self.readiness.require("a server of every SET", sets.ready)
            self.readiness.require("wallet", lambda: self.wallet_link.up)
            host, port = host_and_port(self.settings.listen)
            async with HttpServer(Front(self._handlers(sets), self.traffic), host, port) as server:
                self.port = server.port
                self.serving.set()
                _log.info("gateway serves", listen=self.settings.listen)
                await stop.wait()
            for task in running:
                task.cancel()
            sets.close()

    def _handlers(self, sets: Sets) -> dict[str, Handler]:
        settings = self.settings
        tokens = Tokens(settings.token_key, self.clock, rejections=Rejections(settings.rejected_tokens_per_s))
        wallets = Wallets(tokens, WalletClient(self.wallet_link))
        pages = Pages(self.readiness, self.traffic)
        envelopes = Envelopes(
            tokens,
            Shares(settings.share_key),
            sets,
            self.clock,
            slot_key=settings.slot_key,
            share_key=settings.share_key,
        )
        return {
            "createEnvelope": envelopes.create,
            "getEnvelope": envelopes.detail,
            "openEnvelope": envelopes.open,
            "grabEnvelope": envelopes.grab,
            "cancelEnvelope": envelopes.cancel,
            "getWallet": wallets.balance,
            "listWalletEntries": wallets.entries,
            "listMyEnvelopes": wallets.envelopes,
            "getOpenApi": pages.openapi,
            "getDocs": pages.docs,
            "getHealth": pages.health,
            "getReadiness": pages.readiness,
            "getMetrics": pages.exposition,
        }


@asynccontextmanager
async def running(settings: GatewaySettings, clock: Clock | None = None) -> AsyncIterator[Gateway]:
    """Run a gateway beside the block (tests and benchmarks inside one process)."""
    gateway, stop = Gateway(settings, clock), asyncio.Event()
    task = asyncio.ensure_future(gateway.run(stop))
    serving = asyncio.ensure_future(gateway.serving.wait())
    await asyncio.wait({task, serving}, return_when=asyncio.FIRST_COMPLETED)
    try:
        if not task.done():
            yield gateway
    finally:
        serving.cancel()
        stop.set()
        await task
