"""Wires one setnode server: which part owns which connection, task and periodic service."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web

from archive.details import Details
from archive.store import root_of
from envelope.claim_log import ClaimLog
from errors import InvariantBroken
from runtime import logs, metrics
from runtime.clock import Clock
from runtime.http import HttpServer, Readiness, add_probes
from runtime.periodic import Periodic
from runtime.sandbox_clock import clock_at
from runtime.settings import host_and_port
from runtime.tls import tls_of
from runtime.traces.start import tracer_of
from schema import silence
from setnode.activation.cards import Cards
from setnode.activation.cold import ColdEnvelopes
from setnode.activation.list_reader import ListReader
from setnode.activation.loader import Loader, fetch_logs
from setnode.activation.waiting import Waiting
from setnode.actors.actor import Actor
from setnode.actors.registry import Registry
from setnode.admin import add_admin
from setnode.commit.admission import Admission, AdmissionConfig
from setnode.commit.claim_queue import ClaimQueue
from setnode.commit.committer import Committer
from setnode.commit.create_queue import CreateQueue
from setnode.commit.invalidation import ForeignWrites
from setnode.commit.postgres_life import PostgresLife
from setnode.creation.coalescer import CreateCoalescer
from setnode.creation.creator import Creator
from setnode.daily import DailyLimits, Limits
from setnode.days import BusinessDays
from setnode.dispatch import Dispatcher
from setnode.header_seal import HeaderSeal
from setnode.limits import (
    DATABASE_SILENT_S,
    DAYS_EVERY_S,
    DRAIN_POLL_S,
    DRAIN_S,
    GAUGES_EVERY_S,
    LAST_REPLIES_S,
    READ_BACK_EVERY_S,
    SERVICE_ROUND_S,
    STANDBY_EVERY_S,
    STANDBYS_EVERY_S,
    SWEEP_EVERY_S,
    TOPOLOGY_EVERY_S,
)
from setnode.live import Watches
from setnode.ownership import Ownership
from setnode.publications import Publications
from setnode.services.expiry import Expiry, ExpiryConfig
from setnode.services.payouts.payer import Payer
from setnode.services.payouts.payout_backlog import PayoutBacklog
from setnode.services.sweeper import Sweeper
from setnode.sessions import Sessions
from setnode.settings import SetnodeSettings
from setnode.shared_session import SharedSession
from setnode.standby import StandbyWatch
from setnode.traces import Traces
from sharding.ids import day_of
from sharding.topology import Topology, TopologyFile
from switches.file import beside
from switches.switch import Closes
from switches.switchboard import Switchboard
from wire.handshake import Doorkeeper
from wire.keys import GATEWAY, OPERATOR, SETNODE, WALLET, accepted_keys, caller_key
from wire.link import Link
from wire.load import Load, Silence
from wire.server import add_link
from wire.versions import TRACES
from wire.wallet import WalletClient

_log = logs.get("setnode")
_waiting = metrics.gauge("hongbao_mailbox_waiting", "Requests waiting in all mailboxes")
_unreconciled = metrics.gauge("hongbao_unreconciled_fen", "Claimed here, not credited in the wallet yet, or stuck")
_payouts_held = metrics.gauge("hongbao_payout_batches_held", "Committed batches not paid yet, in memory")


class Setnode:
    """The parts of one server, wired together. Made inside a running loop; `run` is called once and owns every task."""

    def __init__(self, settings: SetnodeSettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock = clock or clock_at(settings.sandbox_clock)
        self.readiness = Readiness()
        self._retiring = False
        """Whether actors of days that have gone cold are still in memory."""
        self.ownership = Ownership(
            TopologyFile(Path(settings.topology)),
            settings.set,
            self._on_topology,
            server=settings.server,
            look=self._look_for_topology,
        )
        self.holds, self.owns = self.ownership.holds, self.ownership.owns
        self.switches = Switchboard(beside(Path(settings.topology)), self.clock, lambda: self.topology)
        self._header_seal = HeaderSeal(settings.password_key.encode())
        key = caller_key(settings.link_key, f"{SETNODE}/{settings.set}")
        self.doorkeeper = Doorkeeper(accepted_keys(settings.accept_keys, settings.server, (GATEWAY, OPERATOR)))
        self.tls = tls_of(settings.tls_cert, settings.tls_key, settings.tls_ca)
        self.wallet_link = Link(WALLET, settings.wallet_url, key=key, tls=self.tls)
        wallet = WalletClient(self.wallet_link)
        self.postgres_life = PostgresLife()
        self._sessions = Sessions(
            settings.postgres_dsn, settings.server, settings.claim_connections, self.postgres_life.look
        )
        self._shared = SharedSession(self._sessions["fetch"])
        self._wire_commits(wallet)
        self._wire_creates(wallet)
        self._wire_services(wallet)

    def _wire_commits(self, wallet: WalletClient) -> None:
        """Make actors, what activates and commits them, and the payouts of what was committed."""
        settings = self.settings
        self.payouts = PayoutBacklog(
            self._sessions["payout"], self.clock, settings.server, self.holds, lambda: self.standby.missing
        )
        self.tracer = tracer_of(settings.trace_endpoint, "setnode", settings.server)
        if self.tracer is not None:
            self.doorkeeper.capabilities.add(TRACES)
        self.traces = None if self.tracer is None else Traces(self.tracer, settings.set)
        closed = partial(self.switches.closes_set, Closes.PAYOUTS, settings.set)
        self.payer = Payer(wallet, self.payouts, closed, self.traces)
        self.claim_queue = ClaimQueue(
            self.clock, settings.server, self.payouts.committed, self.traces, self.postgres_life
        )
        self.registry = Registry(
            self.clock,
            loop_time=asyncio.get_running_loop().time,
            enqueue_commit=self.claim_queue.enqueue,
            note_hot=self.claim_queue.note_hot,
            enqueue_load=self._enqueue_load,
            owns=self.owns,
            live_shares=settings.live_shares,
        )
        self.postgres_life.renewed = self.registry.renew
        self.cold = ColdEnvelopes(self._sessions["cold"], _details(settings), self.registry)
        self.loader = Loader(self._sessions["load"], self.cold, self._header_seal, self.postgres_life.check)
        self.lists = ListReader(self._sessions["lists"])
        self.cards = Cards(self.lists, self.registry, self.cold, self.switches)
        self.waiting = Waiting(self.lists, self.clock, self.switches, lambda: self.topology.zone)
        self.admission = Admission(
            settings.set,
            settings.memcached,
            AdmissionConfig(cap=settings.admission_cap, envelope_cap=settings.admission_envelope_cap),
        )
        self.claims = Committer(self.claim_queue, self._sessions.claims, self.admission)

    def _wire_creates(self, wallet: WalletClient) -> None:
        """Make what creates envelopes, and the dispatcher, which hands every request to its part."""
        key = self.settings.password_key.encode()
        self.days = BusinessDays(self._shared, self.clock, lambda: self.topology, self._forget_cold)
        self.create_queue = CreateQueue()
        self.creates = Committer(self.create_queue, [self._sessions["create"]], self.admission)
        self.creator = Creator(
            wallet,
            self.create_queue,
            self.clock,
            self.days,
            password_key=key,
            seal=self._header_seal,
            fetch=self._fetch,
            adopt=self.registry.adopt,
            holds=self.holds,
        )
        coalescer = CreateCoalescer(self.creator)
        limits = Limits(self.settings.wins_per_day, self.settings.opens_from_sender_per_day)
        self.daily = DailyLimits(limits, self.registry, wallet, self.clock, lambda: self.topology.zone)
        self.watches = Watches(self.registry)
        watch = SharedSession(self._sessions["watch"])
        self.standby = StandbyWatch(watch)
        self.publications = Publications(Path(self.settings.topology), watch, self.wallet_link, self._on_published)
        self.dispatcher = Dispatcher(
            self.registry,
            coalescer,
            password_key=key,
            admit=self.ownership.admit,
            switches=self.switches,
            watches=self.watches,
            standby=self.standby,
            daily=self.daily if self.daily.on else None,
            cards=self.cards,
            waiting=self.waiting,
            traces=self.traces,
        )
        self.load = Load(
            self.claim_queue.waits,
            self.create_queue.waits,
            Silence(lambda: self.standby.silent_s, DATABASE_SILENT_S),
        )

    def _wire_services(self, wallet: WalletClient) -> None:
        """Make what works in the background."""
        settings, sessions = self.settings, self._sessions
        self.expiry = Expiry(
            sessions["expiry"],
            self.registry,
            self.clock,
            self.owns,
            ExpiryConfig(),
            serves=self.ownership.serves,
            owner_of=self.ownership.owner_of,
        )
        self.sweeper = Sweeper(
            sessions["sweep"],
            wallet,
            self.clock,
            settings.server,
            self.holds,
            after_s=settings.sweep_after_s,
            in_a_row=settings.sweep_in_a_row,
        )
        self.foreign_writes = ForeignWrites(
            sessions["listen"], self._invalidate, self._on_announced, self.postgres_life.saw
        )

    def _invalidate(self, envelope_id: int | None = None) -> None:
        self.registry.invalidate(envelope_id)
        self.cold.invalidate(envelope_id)

    def _enqueue_load(self, actor: Actor) -> None:
        # A method, because registry and loader need each other.
        self.loader.enqueue(actor)

    @property
    def topology(self) -> Topology:
        """The topology as it is now."""
        return self.ownership.topology

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`, then finish what is in flight, within DRAIN_S, and close all connections."""
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(work)
                for work in (
                    self.wallet_link.maintain(),
                    self.loader.run(),
                    self.cold.run(),
                    self.lists.run(),
                    self.claims.run(),
                    self.creates.run(),
                    self.payer.run(),
                    self.daily.run(),
                    self.foreign_writes.run(),
                    self.publications.run(),
                    *([self.tracer.run()] if self.tracer is not None else []),
                    *(service.run() for service in self._services()),
                )
            ]
            self._require()
            app = web.Application()
            add_probes(app, self.readiness)
            add_link(app, self.dispatcher, self.doorkeeper, self.load)
            add_admin(app, self.registry, self.clock, self.doorkeeper)
            context = self.tls.server if self.tls is not None else None
            async with HttpServer(app, *host_and_port(self.settings.listen), tls=context):
                _log.info("setnode serves", server=self.settings.server, listen=self.settings.listen)
                await stop.wait()
                await self._drain()
            for task in running:
                task.cancel()
        self.admission.close()
        await self._sessions.close()

    def _services(self) -> list[Periodic]:
        expiry, payouts = self.expiry, self.payouts
        return [
            self.load.service(),
            self.switches.service(),
            self.watches.service(),
            Periodic(
                "expiry",
                self._while_confirmed(expiry.run_round),
                interval_s=expiry.config.interval_s,
                timeout_s=SERVICE_ROUND_S,
            ),
            Periodic(
                "sweeper",
                self._while_confirmed(self.sweeper.run_once),
                interval_s=SWEEP_EVERY_S,
                timeout_s=SERVICE_ROUND_S,
            ),
            Periodic("payout_read_back", payouts.read_back, interval_s=READ_BACK_EVERY_S, timeout_s=SERVICE_ROUND_S),
            Periodic("days", self.days.look, interval_s=DAYS_EVERY_S, timeout_s=SERVICE_ROUND_S),
            Periodic("standby", self.standby.look, interval_s=STANDBY_EVERY_S),
            Periodic("standbys", self.standby.count, interval_s=STANDBYS_EVERY_S),
            Periodic("topology", self._reload_topology, interval_s=TOPOLOGY_EVERY_S),
            *([self.tls.service()] if self.tls is not None else []),
            Periodic("gauges", self._publish, interval_s=GAUGES_EVERY_S),
        ]

    def _while_confirmed(self, run_round: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[None]]:
        """Leave out rounds while no standby confirms commits (`Finisher` says why)."""

        async def run_or_leave_out() -> None:
            if not self.standby.missing:
                await run_round()

        return run_or_leave_out

    def _require(self) -> None:
        """Say on what this server's readiness depends."""
        silence.publish(self.settings.set, lambda: self.standby.silent_s)
        self.readiness.require("database", lambda: self.days.readable)
        # The rotation makes the tables. While the database is away nobody knows whether they are missing.
        self.readiness.require("day tables", lambda: bool(self.days.with_tables) or not self.days.readable)
        self.readiness.require_at_start("wallet", lambda: self.wallet_link.up)
        self.readiness.note(
            "the wallet is away: creates are refused, payouts wait, opens go on", lambda: not self.wallet_link.up
        )
        self.readiness.explain(lambda: self.wallet_link.refusal)
        self.readiness.note("no standby confirms commits: the SET is read-only", lambda: self.standby.missing)
        self.readiness.note("the sweeper has stopped: look at its log", lambda: self.sweeper.stopped)

    async def _drain(self) -> None:
        """Tell callers to go elsewhere and refuse new requests; wait for those that were accepted, at most DRAIN_S.

        Payouts are not waited for: their intents stand in Postgres.
        """
        await self.load.leave()
        self.dispatcher.stopping = True
        try:
            async with asyncio.timeout(DRAIN_S):
                await self.dispatcher.drain()
                idle = (self.claims, self.creates, self.cold, self.lists, self.daily)
                while self.registry.waiting or not all(one.idle for one in idle):
                    await asyncio.sleep(DRAIN_POLL_S)
        except TimeoutError:
            _log.warning("stopped with work in flight; Postgres knows what was committed")
        await asyncio.sleep(LAST_REPLIES_S)

    async def _fetch(self, envelope_id: int) -> ClaimLog | InvariantBroken | None:
        """Read one log without an actor: from the hot tables, else from a cold day. Raises Unavailable."""
        day = day_of(envelope_id)
        found = await self._shared.run(lambda connection: fetch_logs(connection, day, [envelope_id], self._header_seal))
        return found[envelope_id] if envelope_id in found else await self.cold.find(envelope_id)

    async def _forget_cold(self) -> None:
        """Read which days have gone cold, and forget their actors; busy ones at a later look."""
        await self._shared.run(self.cold.refresh)
        self._retiring |= self.cold.take_news()
        if self._retiring:
            self._retiring = self.registry.retire(self.cold.covers)

    async def _reload_topology(self) -> None:
        self.ownership.reload()

    def _on_announced(self) -> None:
        """Look at what was published, and at the file: a tool of this host may have written it."""
        self.publications.soon()
        self.ownership.reload()

    def _look_for_topology(self) -> None:
        # A method, because ownership is made first.
        self.publications.soon()

    def _on_published(self) -> None:
        self.ownership.reload()
        self.switches.look()

    def _on_topology(self) -> None:
        """Invalidate all logs: envelopes that have come to this server may have been written elsewhere."""
        self.registry.invalidate()

    async def _publish(self) -> None:
        self.registry.publish()
        _waiting.set(self.registry.waiting)
        _payouts_held.set(self.payouts.held)
        _unreconciled.set(self.payouts.unpaid_fen + self.payouts.stuck_fen)


def _details(settings: SetnodeSettings) -> Details | None:
    """Return the reader of the archive; None if the settings name none."""
    return Details(root_of(settings.archive), settings.archive_key.encode()) if settings.archive else None


@asynccontextmanager
async def running(settings: SetnodeSettings, clock: Clock | None = None) -> AsyncIterator[Setnode]:
    """Run a server beside the block (tests and benchmarks inside one process)."""
    node, stop = Setnode(settings, clock), asyncio.Event()
    task = asyncio.ensure_future(node.run(stop))
    try:
        yield node
    finally:
        stop.set()
        await task
