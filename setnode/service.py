"""Puts one setnode server together and runs it: who owns which connection, task and periodic service."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from aiohttp import web

from archive.details import Details
from envelope.claim_log import ClaimLog
from envelope.errors import InvariantBroken, Unavailable
from envelope.limits import LIMITS
from runtime import logs, metrics
from runtime.clock import Clock, SystemClock
from runtime.http import HttpServer, Readiness, add_probes
from runtime.periodic import Periodic
from runtime.postgres import Session
from runtime.settings import host_and_port
from schema.day_tables import days_ahead, known_days, registered_days
from setnode.actors.registry import Registry
from setnode.admin import add_admin
from setnode.commit.admission import Admission, AdmissionConfig
from setnode.commit.claims import ClaimLane
from setnode.commit.committer import Committer
from setnode.commit.creates import CreateLane, day_closed
from setnode.commit.rivals import Rivals
from setnode.creating.creator import Creator
from setnode.creating.crowds import Crowds
from setnode.holdings import Holdings
from setnode.limits import (
    CLAIM_CONNECTIONS,
    DAYS_AGAIN_S,
    LIVE_SHARES,
    LOAD_PATIENCE_S,
    RECYCLE_AFTER,
    SERVICE_ROUND_S,
    SWEEP_AFTER_S,
)
from setnode.room import Room
from setnode.rounds.expiry import Expiry, ExpiryConfig
from setnode.rounds.payout import READ_EVERY_S, Payouts
from setnode.rounds.sweeper import Sweeper
from setnode.wake.cold import Cold
from setnode.wake.loader import Loader, fetch_logs
from sharding.ids import IDS_PER_DAY, business_date, day_of, first_id
from sharding.topology import Topology, TopologyFile
from wire.link import Link
from wire.server import add_link
from wire.wallet import WalletClient

T = TypeVar("T")

DRAIN_S = 1.5
"""How long a stop waits for what is in flight."""

_A_DAY = timedelta(days=1)

_log = logs.get("setnode")
_waiting = metrics.gauge("hongbao_mailbox_waiting", "Requests waiting in all mailboxes")
_unreconciled = metrics.gauge("hongbao_unreconciled_fen", "Claimed here, not credited in the wallet yet, or stuck")
_ahead = metrics.gauge(
    "hongbao_day_tables_ahead", "Business days after today whose tables this SET has; -1: not today's"
)
# Until we have looked: a number that pages nobody.
_ahead.set(math.nan)
_payouts_held = metrics.gauge("hongbao_payout_batches_held", "Committed batches not paid yet, in memory")


class SetnodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Read from HONGBAO_*; see `runtime.settings`."""

    listen: str
    topology: str
    set: str
    server: str
    postgres_dsn: str
    memcached: str
    wallet_url: str
    link_key: str
    password_key: str
    archive: str = ""
    archive_key: str = ""
    admission_cap: int = 8
    admission_envelope_cap: int = 1
    claim_connections: int = CLAIM_CONNECTIONS
    live_shares: Annotated[int, msgspec.Meta(ge=LIMITS.max_count)] = LIVE_SHARES
    sweep_after_s: float = SWEEP_AFTER_S


class Setnode:
    """The parts of one server, wired together. `run` owns every task."""

    def __init__(self, settings: SetnodeSettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock = clock or SystemClock()
        self.holdings = Holdings(
            TopologyFile(Path(settings.topology)), settings.set, self._moved, server=settings.server
        )
        self.holds, self.owns = self.holdings.holds, self.holdings.owns
        self.readiness = Readiness()
        dsn = settings.postgres_dsn
        self.wallet_link = Link("wallet", settings.wallet_url, key=settings.link_key)
        wallet = WalletClient(self.wallet_link)
        self.admission = Admission(
            settings.set,
            settings.memcached,
            AdmissionConfig(cap=settings.admission_cap, envelope_cap=settings.admission_envelope_cap),
        )
        self._sessions = {
            name: Session(dsn, {"application_name": f"{settings.server}:{name}", **extra}, recycle_after=RECYCLE_AFTER)
            for name, extra in _SESSIONS.items()
        }
        claim_sessions = [
            Session(dsn, {"application_name": f"{settings.server}:claims"}, recycle_after=RECYCLE_AFTER)
            for _ in range(settings.claim_connections)
        ]
        self._all_sessions = [*self._sessions.values(), *claim_sessions]
        self.payouts = Payouts(wallet, self._sessions["payout"], self.clock, settings.server, self.holds)
        self.claim_lane = ClaimLane(self.clock, settings.server, self.payouts.committed)
        self.create_lane = CreateLane()
        self.registry = Registry(
            self.clock,
            loop_time=asyncio.get_running_loop().time,
            want_commit=self.claim_lane.want,
            call_hot=self.claim_lane.call_hot,
            want_load=lambda actor: self.loader.want(actor),  # noqa: PLW0108 - the loader is made below
            owns=self.owns,
            live_shares=settings.live_shares,
        )
        self.cold = Cold(self._sessions["cold"], _details(settings), self.registry)
        self.loader = Loader(self._sessions["load"], self.cold)
        self.claims = Committer(self.claim_lane, claim_sessions, self.admission)
        self.creates = Committer(self.create_lane, [self._sessions["create"]], self.admission)
        key = settings.password_key.encode()
        self._fetching = asyncio.Lock()
        self.creator = Creator(
            wallet,
            self.create_lane,
            self.clock,
            password_key=key,
            fetch=self._fetch,
            adopt=self.registry.adopt,
            holds=self.holds,
            is_usual=self._is_usual,
            has_tables=self._has_tables,
            is_near=self._is_near,
        )
        self.room = Room(self.registry, Crowds(self.creator), password_key=key, admit=self.holdings.admit)
        self.expiry = Expiry(
            self._sessions["expiry"], self.registry, self.clock, self.owns, ExpiryConfig(), serves=self.holdings.serves
        )
        self.sweeper = Sweeper(
            self._sessions["sweep"], wallet, self.clock, settings.server, self.holds, after_s=settings.sweep_after_s
        )
        self.rivals = Rivals(self._sessions["listen"], self.registry.distrust, self.holdings.reload)
        self.days: set[date] = set()
        self._usual: frozenset[int] = frozenset()
        self._retiring = False
        self.closed_days: set[date] = set()
        self._looking = asyncio.Lock()
        self._looked_at = -DAYS_AGAIN_S

    @property
    def topology(self) -> Topology:
        """The topology as it is now."""
        return self.holdings.topology

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`, then finish what is in flight and leave."""
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(work)
                for work in (
                    self.wallet_link.maintain(),
                    self.loader.run(),
                    self.cold.run(),
                    self.claims.run(),
                    self.creates.run(),
                    self.payouts.run(),
                    self.rivals.run(),
                    *(service.run() for service in self._services()),
                )
            ]
            self._require()
            app = web.Application()
            add_probes(app, self.readiness)
            add_link(app, self.room, key=self.settings.link_key)
            add_admin(app, self.registry, self.clock, key=self.settings.link_key)
            async with HttpServer(app, *host_and_port(self.settings.listen)):
                _log.info("setnode serves", server=self.settings.server, listen=self.settings.listen)
                await stop.wait()
                await self._drain()
            for task in running:
                task.cancel()
        self.admission.close()
        await asyncio.gather(*(session.close() for session in self._all_sessions))

    def _services(self) -> list[Periodic]:
        return [
            Periodic(
                "expiry", self.expiry.run_once, interval_s=self.expiry.config.interval_s, timeout_s=SERVICE_ROUND_S
            ),
            Periodic("sweeper", self.sweeper.run_once, interval_s=5.0, timeout_s=SERVICE_ROUND_S),
            Periodic("payout_read_back", self.payouts.read_back, interval_s=READ_EVERY_S, timeout_s=SERVICE_ROUND_S),
            Periodic("days", self._look_at_days, interval_s=5.0, timeout_s=SERVICE_ROUND_S),
            Periodic("topology", self._reload_topology, interval_s=1.0),
            Periodic("gauges", self._gauge, interval_s=1.0),
        ]

    def _require(self) -> None:
        self.readiness.require("database", lambda: bool(self.days))
        self.readiness.require("wallet", lambda: self.wallet_link.up)

    async def _drain(self) -> None:
        """Take no new work; wait for actors, creates and commits, bounded in time."""
        self.room.stopping = True
        try:
            async with asyncio.timeout(DRAIN_S):
                await self.room.drain()
                idle = (self.claims, self.creates, self.cold)
                while self.registry.waiting or not all(one.idle for one in idle):
                    await asyncio.sleep(0.01)
        except TimeoutError:
            _log.warning("stopped with work in flight; Postgres knows what was committed")

    async def _fetch(self, envelope_id: int) -> ClaimLog | InvariantBroken | None:
        found = await self._read(lambda connection: fetch_logs(connection, day_of(envelope_id), [envelope_id]))
        return found[envelope_id] if envelope_id in found else await self.cold.find(envelope_id)

    async def _look_at_days(self) -> None:
        closed = await self._read(registered_days)
        self.note_days(await self._read(known_days), closed)
        self._retiring |= await self._read(self.cold.look)
        if self._retiring:
            self._retiring = self.registry.retire(self.cold.covers)

    def note_days(self, days: set[date], closed: set[date]) -> None:
        """Take in which days have tables, and which nobody can write any more."""
        self.days, self.closed_days = days, closed
        today = business_date(self.clock.now(), self.topology.zone)
        _ahead.set(days_ahead(days, today))
        self._usual = frozenset(first_id(day) // IDS_PER_DAY for day in days - closed if abs(day - today) <= _A_DAY)

    def _is_usual(self, envelope_id: int) -> bool:
        """Say whether the envelope's day had tables, was open and near when we last could look."""
        return envelope_id // IDS_PER_DAY in self._usual

    async def _has_tables(self, envelope_id: int) -> bool:
        """Say whether the envelope's day has tables. One not known is looked for again, by one at a time and seldom.

        Raises Unavailable while nothing is known at all, Refused `day_closed`; nothing was written either way.
        """
        day = day_of(envelope_id)
        if day in self.closed_days:
            raise day_closed(day)
        if day in self.days:
            return True
        async with self._looking:
            now = asyncio.get_running_loop().time()
            if day not in self.days and now - self._looked_at >= DAYS_AGAIN_S:
                self._looked_at = now
                try:
                    await self._look_at_days()
                except Unavailable as away:
                    raise Unavailable(away.code, away.detail, retry_after_s=away.retry_after_s) from away
        if not self.days:
            raise Unavailable("database_unavailable", "the database does not answer; try again shortly")
        return day in self.days

    def _is_near(self, envelope_id: int) -> bool:
        """Say whether the envelope's day is today by our own clock, or next to it: clocks differ at midnight."""
        today = business_date(self.clock.now(), self.topology.zone)
        return abs(day_of(envelope_id) - today) <= _A_DAY

    async def _read(self, work: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Read on the connection that creates and services share, one at a time; raises Unavailable."""
        try:
            async with asyncio.timeout(LOAD_PATIENCE_S):
                await self._fetching.acquire()
        except TimeoutError:
            raise Unavailable("database_unavailable", "too many wait for the database; try again shortly") from None
        try:
            return await self._sessions["fetch"].patiently(work, LOAD_PATIENCE_S)
        finally:
            self._fetching.release()

    async def _reload_topology(self) -> None:
        self.holdings.reload()

    def _moved(self) -> None:
        """Distrust what is in memory: what came here from elsewhere may have been written there meanwhile."""
        self.registry.distrust()

    async def _gauge(self) -> None:
        self.registry.publish()
        _waiting.set(self.registry.waiting)
        _payouts_held.set(self.payouts.held)
        _unreconciled.set(self.payouts.unpaid_fen + self.payouts.stuck_fen)


_SESSIONS: dict[str, dict[str, str]] = {
    "create": {},
    # Constants at planning time: all partitions but one are pruned before they are opened.
    "load": {"plan_cache_mode": "force_custom_plan"},
    "fetch": {"plan_cache_mode": "force_custom_plan"},
    "payout": {"plan_cache_mode": "force_custom_plan"},
    "expiry": {"plan_cache_mode": "force_custom_plan"},
    "sweep": {},
    "listen": {},
    "cold": {"plan_cache_mode": "force_custom_plan"},
}


def _details(settings: SetnodeSettings) -> Details | None:
    """Return the reader of the archive; None where none was given."""
    return Details(Path(settings.archive), settings.archive_key.encode()) if settings.archive else None


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
