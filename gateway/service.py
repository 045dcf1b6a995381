"""One gateway process: its settings, its parts wired together, its start and stop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import msgspec

from gateway.acceptor import Acceptor, Endpoint
from gateway.access_log import LoggingDispatcher
from gateway.admission.admission import Admission
from gateway.admission.priority import Promises
from gateway.connection import Connection
from gateway.connection_bounds import ConnectionBounds
from gateway.connection_factory import ConnectionFactory
from gateway.cross_origin import CrossOriginConnection, CrossOriginNewcomer, preflight
from gateway.dispatch import Dispatcher, Dispatching
from gateway.handlers.envelopes import EnvelopeHandlers
from gateway.handlers.live import LiveHandlers
from gateway.handlers.ops import OpsHandlers
from gateway.handlers.play import PlayHandlers, read_play_users
from gateway.handlers.targets import Targets
from gateway.handlers.wallets import WalletHandlers
from gateway.http.origins import Origins
from gateway.identity.auth_failures import AuthFailureLimiter
from gateway.identity.proxies import TrustedProxies
from gateway.identity.rates import Rates, read_rates
from gateway.identity.share_tokens import ShareTokens
from gateway.identity.token_keys import KEY_BYTES
from gateway.identity.tokens import Tokens
from gateway.limits import (
    AUTH_FAILURES_PER_S,
    AWAY_S,
    CLIENT_WAITS_S,
    CONNECTIONS,
    CONNECTIONS_PER_ADDRESS,
    COUNTS_S,
    DRAIN_S,
    LONGEST_RATE_S,
    MOST_AUTH_FAILURES_PER_S,
    MOST_AWAY_S,
    SWEEP_S,
    TIMEOUTS_S,
)
from gateway.live.hub import Hub
from gateway.newcomers import Newcomer
from gateway.parsing.calendar import Calendar
from gateway.parsing.instants import write_instant
from gateway.refusals import CrossOriginRefusals, Refusals
from gateway.request_metrics import RequestMetrics
from gateway.resources import Handler
from gateway.routes import PREFLIGHT
from gateway.sets.calls import Sets
from gateway.sets.lists import Lists
from gateway.site.handbook import FOLDER, Handbook
from gateway.site.page import read_origins
from gateway.site.site import Site
from gateway.traces import Sampler, TracedRequests
from gateway.unsent import UnsentAnswers
from runtime import listening, logs
from runtime.clock import Clock
from runtime.http import Readiness
from runtime.periodic import Periodic
from runtime.process import Stop, tell_ready
from runtime.sandbox_clock import clock_at
from runtime.settings import host_and_port, is_loopback
from runtime.tls import tls_of
from runtime.traces.start import tracer_of
from sharding.slots import KEY_BYTES as SLOT_KEY_BYTES
from switches.file import beside
from switches.switchboard import Switchboard
from wire.keys import GATEWAY, WALLET, caller_key
from wire.link import Link
from wire.wallet import WalletClient

_log = logs.get("gateway")

Key = Annotated[str, msgspec.Meta(min_length=KEY_BYTES)]
MetricsKey = Annotated[str, msgspec.Meta(pattern=r"^(.{16,})?$")]


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Read from HONGBAO_* (`runtime.settings`). All gateways of an installation must have the same keys."""

    listen: str
    """HOST:PORT for clients; port 0 takes a free one (`Gateway.port`)."""
    shared_listen: str = ""
    """HOST:PORT at which all gateways of this host listen, beside their own: one address for clients, with the
    connections spread among the gateways by the kernel (SO_REUSEPORT)."""
    listen_fds: str = ""
    """Numbers of listening sockets that this process inherits for these addresses, with commas between. Whoever started
    it keeps them open, so that no connection is lost while it restarts."""
    ready_fd: int = -1
    """Number of an inherited file. The gateway writes to it once it is ready, and closes it. So the process that starts
    gateways waits until the next one is ready before it stops this one; both have the same listening sockets."""
    drain_s: Annotated[float, msgspec.Meta(ge=0, le=600)] = DRAIN_S
    """At SIGTERM it serves on for so many seconds, says 503 to `/readyz`, and ends each connection with its next
    answer. SIGINT stops it at once."""
    topology: str
    """Path of the topology file."""
    wallet_url: str
    """Where the wallet listens, such as `http://127.0.0.1:18001`."""
    link_key: str
    """The gateways' own key, `gateway:HEX` (`wire.keys`): with it setnodes and the wallet are called."""
    token_key: Key
    """Signs bearer tokens (JWT, HS256)."""
    token_keys: str = ""
    """Path of a JWKS file with further keys of bearer tokens, which name theirs by `kid`: public ones (EdDSA, ES256,
    RS256), so that a gateway cannot sign, or shared ones (HS256). It is read again when it changes. Unset: TOKEN_KEY
    alone."""
    token_audience: str = ""
    """Tokens by keys of that file must have it in `aud`. Set it where who signs them signs for other systems, too."""
    token_issuer: str = ""
    """Tokens by keys of that file must have it as `iss`."""
    share_key: Key
    """Makes share tokens and hashes the passwords in fingerprints. With another key all share tokens become invalid,
    and a repeated create with a password is refused as `idempotency_key_reused`."""
    slot_key: Annotated[str, msgspec.Meta(min_length=SLOT_KEY_BYTES.start, max_length=SLOT_KEY_BYTES.stop - 1)]
    """Gives a create its slot; must not change while any create may still be repeated."""
    metrics_key: MetricsKey = ""
    """Opens `/metrics` (`Authorization: Bearer KEY`) and nothing else; without it `/metrics` is closed."""
    rejected_tokens_per_s: Annotated[int, msgspec.Meta(ge=1, le=MOST_AUTH_FAILURES_PER_S)] = AUTH_FAILURES_PER_S
    """See `gateway.identity.auth_failures`; raise it where many clients come through a proxy that is not trusted."""
    user_rates: str = ""
    """How often a user may ask, such as `open=10/1 create=5/60 grab=10/1 view=20/1 cancel=5/1 wallet=10/1`: ten opens
    at once and ten more each second. Unset: as often as they like. Each gateway counts for itself."""
    address_rates: str = ""
    """The same for one address, behind which a whole company may be."""
    open_every_s: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_RATE_S)] = 0.0
    """A user may try to open one envelope once in so many seconds; 0: as often as they like."""
    trusted_proxies: str = ""
    """Networks or addresses of our own proxies, with commas between: their `X-Forwarded-For` names the client."""
    cors_origins: str = ""
    """Origins whose pages may call this gateway from a browser (CORS), with commas between: `https://chat.example`.
    Unset: none may, and no answer speaks of it."""
    access_log: bool = False
    """1: each request that is answered is logged, without its query and body."""
    client_waits_s: Annotated[float, msgspec.Meta(ge=TIMEOUTS_S[0], le=TIMEOUTS_S[1])] = CLIENT_WAITS_S
    """How long clients wait for an answer; a request that has waited for so long is not begun any more. A client may
    say it of itself: header `X-Request-Timeout-Ms`."""
    away_s: Annotated[float, msgspec.Meta(ge=0, le=MOST_AWAY_S)] = AWAY_S
    """How long a SET without a server, or the wallet, is waited for after it has gone; then its calls are refused."""
    connections: Annotated[int, msgspec.Meta(ge=1)] = CONNECTIONS
    """Clients that stay connected, and never more than the files that the process may open but 128; above it those that
    have been idle longest are ended."""
    connections_per_address: Annotated[int, msgspec.Meta(ge=1)] = CONNECTIONS_PER_ADDRESS
    """The same for one address that is no trusted proxy."""
    play_users: str = ""
    """Users, with commas between, as any of whom everybody who reaches this port may sign in: for development. Unset:
    nobody."""
    frame_ancestors: str = ""
    """Origins, with commas between, whose pages may frame our page and hand it a user's token; unset: none."""
    sandbox_clock: str = ""
    """Path of a sandbox's clock; `./run --sandbox` sets it, and nobody else may. Unset: the machine's clock."""
    tls_cert: str = ""
    """Path of this process's certificate, PEM: with it setnodes and the wallet are called at https://
    (`runtime.tls`). It is read again when it changes. Unset: no TLS."""
    tls_key: str = ""
    """Path of its key. Unset: it is in the same file."""
    tls_ca: str = ""
    """Path of the certificates of the CAs whose certificates are accepted. It goes with `tls_cert`."""
    trace_endpoint: str = ""
    """Where a collector of OpenTelemetry takes traces, such as `http://127.0.0.1:4318`; unset: none are made. Setnodes
    and the wallet need it, too."""
    trace_ratio: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    """Which share of all requests is traced by our own choice: 0.001 is one in a thousand."""
    trace_from: str = ""
    """Networks or addresses, with commas between, from which a request is traced if its header `traceparent` says that
    its caller is. Unset: nobody's header counts."""
    docs: str = ""
    """Folder of the documentation site, which is served below `/docs/`. Unset: that of the checkout, where `docs/build`
    has made one."""


class Gateway:
    """One gateway. `run` owns every task; it may be run once."""

    def __init__(self, settings: GatewaySettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock = clock or clock_at(settings.sandbox_clock)
        self.sandbox_now = (lambda: write_instant(self.clock.now_ms())) if settings.sandbox_clock else None
        self.request_metrics = RequestMetrics()
        self.origins = Origins(settings.cors_origins)
        self.refusals = CrossOriginRefusals(self.origins) if self.origins else Refusals()
        self.readiness = Readiness()
        parents = read_origins("HONGBAO_FRAME_ANCESTORS", settings.frame_ancestors)
        self.site = Site(parents, sandbox=bool(settings.sandbox_clock))
        self.handbook = Handbook(Path(settings.docs) if settings.docs else FOLDER)
        self.tokens = Tokens(
            settings.token_key,
            self.clock,
            failures=AuthFailureLimiter(settings.rejected_tokens_per_s),
            keys=Path(settings.token_keys) if settings.token_keys else None,
            audience=settings.token_audience,
            issuer=settings.token_issuer,
        )
        self.link_key = caller_key(settings.link_key, GATEWAY)
        self.bounds = ConnectionBounds(
            settings.connections, settings.connections_per_address, TrustedProxies(settings.trusted_proxies)
        )
        self.unsent = UnsentAnswers(self.bounds.end)
        self.tls = tls_of(settings.tls_cert, settings.tls_key, settings.tls_ca)
        self.wallet_link = Link(WALLET, settings.wallet_url, key=self.link_key, tls=self.tls)
        self.sampler = Sampler(settings.trace_ratio, TrustedProxies(settings.trace_from, "HONGBAO_TRACE_FROM"))
        self.tracer = tracer_of(settings.trace_endpoint, "gateway", settings.listen)
        self.sets: Sets | None = None
        self.hub: Hub | None = None
        self.admission: Admission | None = None
        self.switches: Switchboard | None = None
        self.port = 0
        self.serving = asyncio.Event()

    async def run(self, stop: Stop) -> None:
        """Serve until `stop`; then drain, accept no connections, answer the requests in flight, and close all links."""
        stop.drain_s = self.settings.drain_s
        async with asyncio.TaskGroup() as tasks:
            self.admission = admission = Admission(self.wallet_link, self.settings.client_waits_s)
            self.sets = sets = Sets(
                Path(self.settings.topology),
                self.link_key,
                tasks,
                admission.levels,
                self.wallet_link,
                self.settings.away_s,
                self.tls,
            )
            path = beside(Path(self.settings.topology))
            self.switches = switches = Switchboard(path, self.clock, lambda: sets.topology)
            counts = Periodic("counts", self._publish_counts, interval_s=COUNTS_S)
            late = Periodic("late_heads", self.bounds.sweep, interval_s=SWEEP_S)
            adjusting = admission.service(sets.routing.servers.links)
            running = [
                tasks.create_task(work)
                for work in (
                    self.wallet_link.maintain(),
                    *(one.run() for one in (counts, late, adjusting, switches.service(), *sets.services)),
                    self.tokens.service().run(),
                    *([self.tls.service().run()] if self.tls is not None else []),
                    *([self.tracer.run()] if self.tracer is not None else []),
                )
            ]
            self.readiness.require("a server of any SET", sets.ready)
            self.readiness.require_at_start("wallet", lambda: self.wallet_link.up)
            if (tls := self.tls) is not None:
                # Links that are up serve on, so that it is named only where something else is missing, too.
                valid = "a certificate that is valid now"
                self.readiness.require(valid, lambda: not tls.problem or (self.wallet_link.up and sets.ready()))
            endpoints = [Endpoint(*host_and_port(self.settings.listen))]
            if self.settings.shared_listen:
                endpoints.append(Endpoint(*host_and_port(self.settings.shared_listen), shared=True))
            self.hub = hub = Hub(sets)
            running += [tasks.create_task(one.run()) for one in hub.services]
            handlers = self._handlers(sets, admission.line.promises, switches, hub)
            connections = ConnectionFactory(
                self._dispatching(sets, handlers),
                self.bounds,
                self.unsent,
                admission.line,
                self.refusals,
                CrossOriginConnection if self.origins else Connection,
            )
            kept = listening.inherited(self.settings.listen_fds)
            newcomer = CrossOriginNewcomer if self.origins else Newcomer
            async with Acceptor(connections, *endpoints, inherited=kept, newcomer=newcomer) as server:
                self.port = server.port
                self.serving.set()
                _log.info("gateway serves", listen=self.settings.listen)
                await tell_ready(self.readiness, self.settings.ready_fd, stop)
                await stop.wait()
                self.readiness.leaving = True
                await server.drain(self.settings.drain_s, stop.at_once, replaced=self.settings.ready_fd >= 0)
            for task in running:
                task.cancel()
            sets.close()

    def _dispatching(self, sets: Sets, handlers: dict[str, Handler]) -> Dispatching:
        """Return what hands requests to their handlers; logged and traced as the settings say."""
        kind = LoggingDispatcher if self.settings.access_log else Dispatcher
        plain = kind(
            handlers,
            self.request_metrics,
            lambda one: sets.topology.set_for(one).name,
            lambda path: self.site.operations_of(path) or self.handbook.operations_of(path),
            self.sandbox_now,
        )
        return plain if self.tracer is None else TracedRequests(plain, self.sampler, self.tracer)

    async def _publish_counts(self) -> None:
        await self.request_metrics.publish()
        self.refusals.publish()

    def _handlers(self, sets: Sets, promises: Promises, switches: Switchboard, hub: Hub) -> dict[str, Handler]:
        settings = self.settings
        tokens = self.tokens
        rates = Rates(
            read_rates("HONGBAO_USER_RATES", settings.user_rates),
            read_rates("HONGBAO_ADDRESS_RATES", settings.address_rates),
            settings.open_every_s,
        )
        wallet = WalletClient(self.wallet_link)
        wallets = WalletHandlers(
            tokens, rates, wallet, Lists(sets), switches, lambda: sets.topology.zone, settings.away_s
        )
        ops = OpsHandlers(
            self.readiness,
            lambda: {"sets_away": sets.away(), **({} if self.wallet_link.up else {"wallet_away": True})},
            self.request_metrics,
            settings.metrics_key,
            handbook=bool(self.handbook),
            sandbox_now=self.sandbox_now,
        )
        share_tokens, calendar = ShareTokens(settings.share_key), Calendar(self.clock)
        live = LiveHandlers(tokens, rates, Targets(sets, calendar, share_tokens), hub)
        play = PlayHandlers(
            read_play_users(settings.play_users),
            settings.token_key,
            self.clock,
            loopback=is_loopback(host_and_port(settings.shared_listen or settings.listen)[0]),
        )
        envelopes = EnvelopeHandlers(
            tokens,
            rates,
            share_tokens,
            sets,
            self.clock,
            calendar,
            promises=promises,
            switches=switches,
            slot_key=settings.slot_key,
            share_key=settings.share_key,
        )
        cross_origin = {PREFLIGHT: preflight(self.origins)} if self.origins else {}
        return {
            **cross_origin,
            "createEnvelope": envelopes.create,
            "getEnvelope": envelopes.detail,
            "openEnvelope": envelopes.open,
            "grabEnvelope": envelopes.grab,
            "cancelEnvelope": envelopes.cancel,
            "watchEnvelopes": live.watch,
            "getWallet": wallets.balance,
            "listWalletEntries": wallets.entries,
            "listMyEnvelopes": wallets.envelopes,
            "listPlayUsers": play.users,
            "makePlayToken": play.token,
            "getTotals": wallets.totals,
            "getOpenApi": ops.openapi,
            "getDocs": ops.docs,
            "getHealth": ops.health,
            "getReadiness": ops.readiness,
            "getMetrics": ops.exposition,
        }


@asynccontextmanager
async def running(settings: GatewaySettings, clock: Clock | None = None) -> AsyncIterator[Gateway]:
    """Run a gateway beside the block, in the same event loop, for tests and benchmarks."""
    gateway, stop = Gateway(settings, clock), Stop()
    task = asyncio.ensure_future(gateway.run(stop))
    serving = asyncio.ensure_future(gateway.serving.wait())
    await asyncio.wait({task, serving}, return_when=asyncio.FIRST_COMPLETED)
    try:
        if not task.done():
            yield gateway
    finally:
        serving.cancel()
        stop.set_at_once()
        await task
