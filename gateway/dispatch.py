"""Step 2 of a request: calls the operation that method and path name, and turns every error into its problem.

aiohttp's own router and middlewares (`web.Application`) would cost as much as an open
(docs/decisions/0008-gateway-request-loop.md).
"""

import asyncio
import itertools
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final, Protocol

from aiohttp import hdrs

from errors import HongbaoError, Refused, Unavailable
from gateway.failure_log import FailureLog
from gateway.http.answer import Answer
from gateway.http.request import Request
from gateway.http.request_ids import X_REQUEST_ID, is_fit
from gateway.limits import REQUESTS
from gateway.problem_answers import clock_note, problem_answer
from gateway.request_metrics import RequestMetrics
from gateway.resources import Elsewhere, Handler, Resource, Resources
from gateway.routes import NO_ROUTE
from runtime import logs

_CLIENT_GONE: Final = 499
"""Counted and never sent: the client hung up before its request was whole, or the handler was cancelled at a stop."""
_UNEXPECTED: Final = HongbaoError("internal_error", "an unexpected error")

_log = logs.get("gateway")


class Dispatching(Protocol):
    """What a connection asks for the answer to each of its requests."""

    def serve(self, request: Request) -> Awaitable[Answer]:
        """Answer a request (`Dispatcher.serve`)."""

    def malformed(self, request: Request) -> Awaitable[Answer]:
        """Answer bytes that are no HTTP request."""


class Dispatcher:
    """Answers every request once. `handlers` are by operation name (`gateway.routes`)."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        metrics: RequestMetrics,
        set_of: Callable[[int], str] = lambda _: "",
        elsewhere: Elsewhere = lambda _: None,
        sandbox_now: Callable[[], str] | None = None,
    ) -> None:
        """`set_of` names the SET of an envelope, for the log; `elsewhere` finds paths that are no routes.

        `sandbox_now` tells the time of a sandbox: refusals that go by its clock say so.
        """
        self._sandbox_now = sandbox_now
        self._resources = Resources(handlers, elsewhere)
        self._metrics = metrics
        self._failures = FailureLog(set_of)
        self._prefix = f"{secrets.token_hex(4)}-".encode()
        self._numbers = itertools.count(1)

    async def serve(self, request: Request) -> Answer:
        """Answer a request; every other error becomes a problem.

        Raises only ConnectionError (the client has gone) and CancelledError (the process stops).
        """
        metrics, number = self._metrics, next(self._numbers)
        started = metrics.begin()
        operation, status = NO_ROUTE, _CLIENT_GONE
        resource: Resource | None = None
        given = request.headers.get(X_REQUEST_ID)
        request_id = b"%b%x" % (self._prefix, number) if given is None or not is_fit(given) else given.encode()
        try:
            if metrics.in_flight > REQUESTS:
                raise Unavailable("busy", f"{REQUESTS} requests are being answered; try again shortly")
            resource = self._resources.of(request)
            found = resource.operations.get(request.method)
            if found is None:
                raise Refused("method_not_allowed", f"the methods of this path are {', '.join(resource.methods)}")
            operation, handler = found
            answer = await handler(request, resource)
            status = answer.status
        except HongbaoError as error:
            accepted = request.headers.get(hdrs.ACCEPT_LANGUAGE, "")
            if self._sandbox_now is not None:
                error.detail += clock_note(error, self._sandbox_now)
            answer = problem_answer(error, request_id, operation, resource.methods if resource else (), accepted)
            status = answer.status
            if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                self._note(request_id, operation, status, error, resource, started)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - logged in full, answered with 500
            _log.error("unexpected error", request_id=request_id.decode(), operation=operation, exc_info=error)
            answer = problem_answer(_UNEXPECTED, request_id, operation)
            status = answer.status
        finally:
            metrics.end(operation, status, started, number)
        answer.request_id = request_id
        return answer

    def names(self, request: Request) -> tuple[str, str]:
        """Return the operation that a request asks for, NO_ROUTE if there is none, and the ID in its path, or ""."""
        try:
            resource = self._resources.of(request)
        except Refused:
            return NO_ROUTE, ""
        name, _ = resource.operations.get(request.method, (NO_ROUTE, None))
        return name, resource.id_text if name != NO_ROUTE else ""

    async def malformed(self, request: Request) -> Answer:
        """Answer bytes that are no HTTP request; the connection ends after it."""
        del request
        number = next(self._numbers)
        started = self._metrics.begin()
        request_id = b"%b%x" % (self._prefix, number)
        error = Refused("malformed_http", "this is no HTTP request that can be read; the connection ends here")
        answer = problem_answer(error, request_id, NO_ROUTE)
        answer.request_id = request_id
        self._metrics.end(NO_ROUTE, answer.status, started, number)
        return answer

    def _note(
        self,
        request_id: bytes,
        operation: str,
        status: int,
        error: HongbaoError,
        resource: Resource | None,
        started: float,
    ) -> None:
        target = None if resource is None else resource.target
        envelope_id = error.envelope_id if target is None else target.envelope_id
        self._failures.note(request_id, operation, status, error, envelope_id, time.perf_counter() - started)
