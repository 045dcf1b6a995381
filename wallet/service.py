"""The wallet process: its settings, its parts wired together, start and stop."""

import asyncio
import contextlib
from functools import partial
from pathlib import Path
from typing import Any, Literal

import aiohttp
import msgspec
from aiohttp import web

from errors import Refused
from published.follower import Follower
from runtime import logs, settings
from runtime.http import HttpServer, Readiness, add_probes
from runtime.periodic import Periodic
from runtime.postgres import Session
from runtime.sandbox_clock import clock_at
from runtime.tls import tls_of
from runtime.traces.start import tracer_of
from schema import jobs, silence, standbys
from sharding.topology import TopologyFile
from wallet import metrics
from wallet.accounts import Accounts
from wallet.batcher import Batcher
from wallet.channels import Channel, LedgerChannel
from wallet.day_places import DayPlaces
from wallet.dispatch import Dispatcher
from wallet.history import History
from wallet.ledger import Ledger
from wallet.limits import (
    DRAIN_POLL_S,
    DRAIN_S,
    FORGET_PLACES_S,
    IDLE_IN_TRANSACTION_MS,
    LOCK_WAIT_MS,
    PROVIDER_AT_ONCE,
    PUBLISHED_EVERY_S,
    READ_CHECK_S,
    SAMPLE_S,
    TOPOLOGY_EVERY_S,
)
from wallet.provider import Provider
from wallet.provider_channel import ProviderChannel
from wallet.readers import Readers
from wallet.rights import Rights
from wire.handshake import Doorkeeper
from wire.keys import GATEWAY, OPERATOR, SETNODE, WALLET, accepted_keys
from wire.load import Load
from wire.server import add_link
from wire.versions import PUBLISHED, TRACES

_log = logs.get("wallet")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a wallet process, from HONGBAO_* variables."""

    listen: str
    """HOST:PORT for links and probes."""
    postgres_dsn: str
    """The wallet's Postgres, with the role that the wallet logs in as."""
    accept_keys: str
    """The keys of those who may call: `gateway/wallet:HEX operator/wallet:HEX setnode:HEX` (`wire.keys`)."""
    topology: str = ""
    """Path of the topology file, by which a SET may pay for its own envelopes only; without it for any."""
    payout_channel: Literal["ledger", "provider"] = "ledger"
    """Who pays claims: the ledger, or the provider at `provider_url` (`wallet.channels`)."""
    tls_cert: str = ""
    """Path of this process's certificate, PEM: it listens by TLS alone then
    (`runtime.tls`). It is read again when it changes. Unset: no TLS."""
    tls_key: str = ""
    """Path of its key. Unset: it is in the same file."""
    tls_ca: str = ""
    """Path of the certificates of the CAs whose certificates are accepted. It goes with `tls_cert`."""
    sandbox_clock: str = ""
    """Path of a sandbox's clock; `./run --sandbox` sets it, and nobody else may. Unset: the machine's clock."""
    trace_endpoint: str = ""
    """Where a collector of OpenTelemetry takes traces, such as `http://127.0.0.1:4318`; unset: none are made."""
    provider_url: str = ""
    """Where the provider of payouts answers; needed where `payout_channel` is `provider`."""


def writer_session(dsn: str) -> Session:
    """Return the session that batches are written on.

    Its settings fix the plans: arrays of any length are looked up by index, in order. Otherwise Postgres would plan the
    statements of a new table for an empty one and scan it for every row of the batch.
    """
    return Session(
        dsn,
        {
            # `post` relies on it: each of its statements sees what was committed before it got the lock.
            "default_transaction_isolation": "read committed",
            "lock_timeout": str(LOCK_WAIT_MS),
            "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_MS),
            "plan_cache_mode": "force_generic_plan",
            "enable_seqscan": "off",
            "enable_hashjoin": "off",
            "enable_mergejoin": "off",
            "jit": "off",
        },
    )


async def serve(config: Settings, stop: asyncio.Event) -> None:
    """Serve until `stop` is set; then refuse new writes, commit those queued (for DRAIN_S at most), reply, return."""
    host, port = settings.host_and_port(config.listen)
    readers = Readers(config.postgres_dsn)
    history = History(readers)
    batcher = Batcher(writer_session(config.postgres_dsn), Ledger(Accounts()))

    load, rights = Load(batcher.waits), _rights(config)
    tls = tls_of(config.tls_cert, config.tls_key, config.tls_ca)
    doorkeeper = Doorkeeper(accepted_keys(config.accept_keys, WALLET, (GATEWAY, OPERATOR, SETNODE)))

    tracer = tracer_of(config.trace_endpoint, "wallet", WALLET)
    follower = Follower(Path(config.topology)) if config.topology else None
    doorkeeper.capabilities |= {word for word, part in ((PUBLISHED, follower), (TRACES, tracer)) if part is not None}

    async def reread() -> None:
        rights.reload()

    async def follow() -> None:
        if follower is not None and await readers.run(follower.look_in):
            rights.reload()

    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(readers.close)
        channel = await _channel(config, batcher, readers, stack)
        async with asyncio.TaskGroup() as group:
            app = web.Application()
            ready = Readiness()
            ready.require("ledger", lambda: batcher.up)
            ready.require("reads", lambda: readers.up)
            silence.publish(WALLET, lambda: readers.silent_s)
            add_probes(app, ready)
            places = DayPlaces(config.postgres_dsn, clock_at(config.sandbox_clock))
            stack.push_async_callback(places.close)
            published = follower.answer if follower is not None else _nothing
            dispatcher = Dispatcher(group, batcher, channel, history, rights, places, published, tracer)
            add_link(app, dispatcher, doorkeeper, load)
            writing = group.create_task(batcher.run())
            periodic = (
                load.service(),
                Periodic("samples", partial(_sample, history, readers), interval_s=SAMPLE_S),
                Periodic("day_places", places.forget, interval_s=FORGET_PLACES_S),
                Periodic("reads", readers.check, interval_s=READ_CHECK_S),
                Periodic("topology", reread, interval_s=TOPOLOGY_EVERY_S),
                Periodic("published", follow, interval_s=PUBLISHED_EVERY_S),
                *([tls.service()] if tls is not None else []),
            )
            repeating = [group.create_task(one.run()) for one in periodic]
            repeating += [group.create_task(tracer.run())] if tracer is not None else []
            async with HttpServer(app, host, port, tls=tls.server if tls is not None else None) as server:
                _log.info("wallet listens", host=host, port=server.port, channel=config.payout_channel)
                await stop.wait()
                await load.leave()
                batcher.stop()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(DRAIN_S):
                        await asyncio.wait({writing})
                        while not dispatcher.idle:
                            await asyncio.sleep(DRAIN_POLL_S)
                await asyncio.sleep(0.01)  # the last replies are written in the next turn of the loop
            for one in repeating:
                one.cancel()
            writing.cancel()


async def _sample(history: History, readers: Readers) -> None:
    """Read what metrics show of the database."""
    metrics.escrow_fen.set(await history.escrow_total())
    metrics.show_jobs(await readers.run(jobs.read))
    await readers.run(standbys.publish)


def _nothing(_args: list[Any]) -> list[Any]:
    return []


def _rights(config: Settings) -> Rights:
    if not config.topology:
        _log.warning("HONGBAO_TOPOLOGY is not set: the key of a SET pays for envelopes of any SET")
    file = TopologyFile(Path(config.topology)) if config.topology else None
    return Rights(file, asyncio.get_running_loop().time)


async def _channel(config: Settings, batcher: Batcher, readers: Readers, stack: contextlib.AsyncExitStack) -> Channel:
    if config.payout_channel == "ledger":
        return LedgerChannel(batcher)
    if not config.provider_url:
        raise Refused("settings_invalid", "HONGBAO_PAYOUT_CHANNEL=provider needs HONGBAO_PROVIDER_URL")
    connector = aiohttp.TCPConnector(limit=PROVIDER_AT_ONCE)
    session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
    return ProviderChannel(batcher, readers, Provider(session, config.provider_url))
