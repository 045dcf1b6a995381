"""The HTTP server: finds the handler, gives every request its ID, turns every error into its problem.

It stands on aiohttp's low-level server: what `web.Application` adds (a router of regular expressions, match objects,
middlewares) costs as much as an open. See `gateway.connection` for the measurement.
"""

import asyncio
import itertools
import math
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from aiohttp import web

from envelope.errors import HongbaoError, Refused, Unavailable
from gateway.connection import Connection
from gateway.http.answer import PROBLEM, Answer, encode_json
from gateway.http.request import Request
from gateway.identity.rejections import PEER
from gateway.limits import HEADER_BYTES, HEADERS, KEEP_ALIVE_S, PATH_CACHE, PATH_CHARS, REQUESTS, REQUESTS_PER_TURN
from gateway.problems import WITH_RETRY_AFTER, problem_of
from gateway.routes import NO_ROUTE, resolve
from gateway.traffic import Traffic
from gateway.turnstile import Turnstile
from runtime import logs

Handler = Callable[[Request, str], Awaitable[Answer]]

_CLOSE = frozenset({408, 413})
_ENDING = frozenset({"malformed_http"})
_WITH_RESULT = frozenset({"busy", "not_found"})
"""Outcomes that are problems over HTTP: open and grab still name them in `result`."""
_ASKS = frozenset({"openEnvelope", "grabEnvelope"})
_INTERNAL = 500
_GONE = 499
"""Counted, never sent: the client hung up before it had asked."""
_UNEXPECTED = HongbaoError("internal_error", "an unexpected error")

_log = logs.get("gateway")


class Front(web.Server):
    """Answers every request exactly once. `handlers` are by the names of `gateway.routes`."""

    def __init__(self, handlers: Mapping[str, Handler], traffic: Traffic) -> None:
        super().__init__(
            cast("Any", self.serve),
            access_log=None,
            keepalive_timeout=KEEP_ALIVE_S,
            max_headers=HEADERS,
            max_field_size=HEADER_BYTES,
            # A compressed body is refused, so it must not be inflated first.
            auto_decompress=False,
        )
        self.turnstile = Turnstile(REQUESTS_PER_TURN, self._loop)
        self._handlers = handlers
        self._traffic = traffic
        self._resources: dict[str, tuple[dict[str, str], str]] = {}
        self._prefix = f"{secrets.token_hex(4)}-".encode()
        self._numbers = itertools.count(1)

    def __call__(self) -> web.RequestHandler:
        """Return the protocol of a new connection."""
        return Connection(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Note whose connection it is; the task that serves it is made next and takes this note along."""
        name = transport.get_extra_info("peername")
        PEER.set(str(name[0]) if isinstance(name, tuple) else "")
        super().connection_made(handler, transport)

    async def serve(self, request: Request) -> Answer:
        """Answer a request, whatever happens; raises ConnectionError only when the client has gone."""
        traffic, number = self._traffic, next(self._numbers)
        started = traffic.arrive(number)
        name, status = NO_ROUTE, _GONE
        request_id = b"%b%x" % (self._prefix, number)
        try:
            if traffic.in_flight > REQUESTS:
                raise Unavailable("busy", f"{REQUESTS} requests are being answered; try again shortly")
            names, text = self._resources.get(request.raw_path) or self._resource(request)
            if (known := names.get(request.method)) is None:
                raise Refused("method_not_allowed", f"this path knows {', '.join(sorted(names))}")
            name = known
            answer = await self._handlers[name](request, text)
            status = answer.status
        except HongbaoError as error:
            answer = self.problem(error, request_id, request, name)
            status = answer.status
            if status == _INTERNAL:
                said = request_id.decode()
                _log.error("answered 500", request_id=said, route=name, code=error.code, error=error.detail)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception:  # noqa: BLE001 - logged in full, told as 500
            _log.exception("unexpected error", request_id=request_id.decode(), route=name)
            answer = self.problem(_UNEXPECTED, request_id, request, name)
            status = answer.status
        finally:
            traffic.leave(name, status, started)
        answer.request_id = request_id
        return answer

    def _resource(self, request: Request) -> tuple[dict[str, str], str]:
        """Find the resource of a request's path, and remember it: many ask for one envelope."""
        found, path = _names(request), request.raw_path
        # What the absolute form means hangs on the method, too; and a query may be a different one each time.
        if len(path) <= PATH_CHARS and path[0] == "/" and "?" not in path:
            if len(self._resources) >= PATH_CACHE:
                self._resources.clear()
            self._resources[path] = found
        return found

    def problem(self, error: HongbaoError, request_id: bytes, request: Request, route: str) -> Answer:
        """Return problem+json for an error; what is our fault is logged in full and told in general."""
        row = problem_of(error)
        body: dict[str, Any] = {
            "type": f"/docs#{error.code}",
            "title": row.title,
            "status": row.status,
            "detail": row.detail or error.detail,
            "code": error.code,
            "retry": row.retry.value,
            "request_id": request_id.decode(),
        }
        headers = b""
        if error.code in _WITH_RESULT and route in _ASKS:
            body["result"] = error.code
        if row.retry in WITH_RETRY_AFTER:
            seconds = error.retry_after_s if isinstance(error, Unavailable) else 1.0
            headers += b"Retry-After: %d\r\n" % max(1, math.ceil(seconds))
        if row.status == 401:  # noqa: PLR2004
            headers += _challenge(error.code)
        if error.code == "method_not_allowed":
            headers += _allow(request)
        close = row.status in _CLOSE or error.code in _ENDING
        return Answer(row.status, encode_json(body), PROBLEM, headers=headers, close=close)

    async def malformed(self, request: Request) -> Answer:
        """Answer what is no HTTP request."""
        number = next(self._numbers)
        request_id = b"%b%x" % (self._prefix, number)
        error = Refused("malformed_http", "this is no HTTP request that can be read; the connection ends here")
        answer = self.problem(error, request_id, request, NO_ROUTE)
        answer.request_id = request_id
        self._traffic.leave(NO_ROUTE, answer.status, self._traffic.arrive(number))
        return answer


def _names(request: Request) -> tuple[dict[str, str], str]:
    path = request.raw_path
    if path[:1] != "/":
        # The absolute form, as sent to a proxy.
        path = request.url.raw_path
    elif "?" in path:
        path = path.partition("?")[0]
    found = resolve(path)
    if found is None:
        raise Refused("route_not_found", "there is nothing at this path; see /docs")
    return found


def _allow(request: Request) -> bytes:
    names, _ = _names(request)
    return f"Allow: {', '.join(sorted(names))}\r\n".encode()


def _challenge(code: str) -> bytes:
    error = b"" if code == "token_missing" else b', error="invalid_token"'
    return b'WWW-Authenticate: Bearer realm="hongbao"%b\r\n' % error
