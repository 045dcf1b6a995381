"""A process to compare the gateway with: `python -m loadtest.baseline_server`, settings from HONGBAO_*.

Three ways to answer the same open requests:

    pessimistic    behind the gateway's own Dispatcher and Connection, which verify token and body, then the lock
    constant_own   the same Dispatcher and Connection, answering a constant
    constant       a plain `aiohttp.web.Application` that answers a constant
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from enum import StrEnum

import msgspec
from aiohttp import hdrs, web

from envelope.outcomes import Outcome
from gateway.admission.line import Line
from gateway.admission.priority import Places
from gateway.connection_bounds import ConnectionBounds
from gateway.connection_factory import ConnectionFactory
from gateway.dispatch import Dispatcher
from gateway.handlers.outcomes import outcome_answer
from gateway.http.answer import Answer, json_answer
from gateway.http.request import Request
from gateway.identity.proxies import TrustedProxies
from gateway.identity.share_tokens import ShareTokens
from gateway.identity.tokens import Tokens
from gateway.limits import CONNECTIONS, REQUESTS_PER_TURN
from gateway.parsing.calendar import Calendar
from gateway.parsing.parameters import X_SHARE_TOKEN, read_open_body
from gateway.refusals import Refusals
from gateway.request_metrics import RequestMetrics
from gateway.resources import Handler, Resource
from gateway.unsent import UnsentAnswers
from loadtest.baselines.baseline import Refusal
from loadtest.baselines.books import Books
from loadtest.baselines.pessimistic import Pessimistic
from loadtest.baselines.pool import Pool
from runtime import process
from runtime.clock import SystemClock
from runtime.http import HttpServer
from runtime.settings import host_and_port, load
from sharding.ids import BUSINESS_ZONE, parse_id
from sharding.slots import EMBEDDED

CONSTANT = b'{"result":"opened","amount_fen":100,"seq":0,"last":false}'
_OUTCOMES = tuple(Outcome)
_OPENED = _OUTCOMES.index(Outcome.OPENED)
_REFUSED = {
    Refusal.SOLD_OUT: _OUTCOMES.index(Outcome.SOLD_OUT),
    Refusal.ALREADY: _OUTCOMES.index(Outcome.ALREADY_OPENED),
    Refusal.CONFLICT: _OUTCOMES.index(Outcome.BUSY),
}


class Mode(StrEnum):
    """What answers."""

    PESSIMISTIC = "pessimistic"
    CONSTANT_OWN = "constant_own"
    CONSTANT = "constant"


class BaselineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Read from HONGBAO_*. The keys are those of the installation whose tokens are sent."""

    listen: str
    mode: Mode
    token_key: str
    share_key: str
    postgres_dsn: str = ""
    pool: int = 16


class Opens:
    """The handler of open: the checks that the gateway makes before it calls a SET, then the lock."""

    def __init__(self, settings: BaselineSettings, baseline: Pessimistic) -> None:
        clock = SystemClock()
        self._user_of = Tokens(settings.token_key, clock).user_of
        self._shares = ShareTokens(settings.share_key)
        self._calendar = Calendar(clock)
        self._baseline = baseline

    async def open(self, request: Request, resource: Resource) -> Answer:
        """Claim a share under the lock."""
        headers = request.headers
        user = self._user_of(headers.get(hdrs.AUTHORIZATION))
        envelope_id = parse_id(resource.id_text, EMBEDDED)
        self._calendar.check(envelope_id, BUSINESS_ZONE)
        ask = await read_open_body(request)
        if not self._shares.is_valid(envelope_id, ask.share_token or headers.get(X_SHARE_TOKEN)):
            return outcome_answer([_OUTCOMES.index(Outcome.NOT_FOUND), 0, -1, False, None])
        amount = await self._baseline.open(envelope_id, user)
        if isinstance(amount, Refusal):
            return outcome_answer([_REFUSED[amount], 0, -1, False, None])
        return outcome_answer([_OPENED, amount, 0, False, None])


async def constant(request: Request, _: Resource) -> Answer:
    """Answer the constant through our own connection loop."""
    del request
    return Answer(200, CONSTANT)


async def ready(request: Request, _: Resource) -> Answer:
    """Report readiness, as the supervisor asks for it."""
    del request
    return json_answer({"status": "ready"})


def application() -> web.Application:
    """Return an application that answers the constant in aiohttp's own way."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=CONSTANT, content_type="application/json")

    async def ready(_: web.Request) -> web.Response:
        return web.json_response({"status": "ready"})

    app = web.Application()
    app.router.add_post("/v1/envelopes/{id}/open", answer)
    app.router.add_get("/readyz", ready)
    return app


@contextlib.asynccontextmanager
async def _server(settings: BaselineSettings) -> AsyncIterator[web.Application | ConnectionFactory]:
    """Yield what answers in this mode; its connections are closed after the block."""
    if settings.mode is Mode.CONSTANT:
        yield application()
    elif settings.mode is Mode.CONSTANT_OWN:
        yield _connections(constant)
    else:
        books = await Books.make(settings.postgres_dsn)
        baseline = Pessimistic(books, await Pool.connect(settings.postgres_dsn, settings.pool))
        try:
            yield _connections(Opens(settings, baseline).open)
        finally:
            await baseline.close()
            await books.close()


def _connections(handler: Handler) -> ConnectionFactory:
    bounds = ConnectionBounds(CONNECTIONS, CONNECTIONS, TrustedProxies(""))
    dispatcher = Dispatcher({"openEnvelope": handler, "getReadiness": ready}, RequestMetrics())
    line = Line(REQUESTS_PER_TURN, Places(), asyncio.get_running_loop())
    return ConnectionFactory(dispatcher, bounds, UnsentAnswers(bounds.end), line, Refusals())


async def _serve(stop: asyncio.Event) -> None:
    settings = load(BaselineSettings)
    async with _server(settings) as server, HttpServer(server, *host_and_port(settings.listen)):
        await stop.wait()


if __name__ == "__main__":
    process.run("baseline", _serve)
