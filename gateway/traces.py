"""Which requests are traced, decided before anything is made for them, and the span of a request that is.

A stranger must not be able to have us trace all they send: `traceparent` counts only from the networks that the
operator has named. All others are chosen by our own coin (docs/operations/traces.md).
"""

import random
from collections.abc import Awaitable
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from multidict import istr

from gateway.dispatch import Dispatcher
from gateway.http.answer import Answer
from gateway.http.request import Request
from gateway.identity.auth_failures import CLIENT_ADDRESS
from gateway.identity.proxies import TrustedProxies
from runtime import logs
from runtime.traces.context import TraceContext, new_trace, read_traceparent
from runtime.traces.limits import TRACES_PER_S
from runtime.traces.span import Kind, Tracer
from wire.traced import code_of, sent_with

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

TRACEPARENT: Final = istr("traceparent")
ADDRESSES: Final = 1_024
"""Addresses of which it is remembered whether their header counts."""
FLAGS: Final = 53
"""Where the flags stand in a `traceparent` of today."""
_NOT_RECORDED: Final = "00"
_LASTING: Final = frozenset({"watchEnvelopes"})
"""Operations that go on behind their answer: their tasks would inherit a span that has long ended."""


class Sampler:
    """Chooses requests: those that a trusted caller traces, and our own share of the others."""

    def __init__(self, ratio: float, trusted: TrustedProxies) -> None:
        self._ratio = ratio
        # Reading an address takes 5 µs, and most requests come from few.
        self._trusts = lru_cache(ADDRESSES)(trusted.trusts)
        self._heeds = bool(trusted)
        self._budget = logs.Budget(TRACES_PER_S)

    def choose(self, headers: "CIMultiDictProxy[str]") -> TraceContext | None:
        """Return the span to which the request belongs, or a new trace; None for a request that is not traced."""
        given = headers.get(TRACEPARENT) if self._heeds else None
        if given is not None and self._trusts(CLIENT_ADDRESS.get()):
            if given[FLAGS:] == _NOT_RECORDED:
                return None
            found = read_traceparent(given)
            if found is not None:
                context, recorded = found
                return context if recorded and self._budget.spend() is not None else None
        # Compared without a call where our own share is none.
        if self._ratio and random.random() < self._ratio and self._budget.spend() is not None:  # noqa: S311 - no secret
            return new_trace()
        return None


class TracedRequests:
    """A dispatcher before another one: it traces chosen requests and passes all others on."""

    def __init__(self, inner: Dispatcher, sampler: Sampler, tracer: Tracer) -> None:
        self._inner = inner
        self._choose = sampler.choose
        self._tracer = tracer

    def serve(self, request: Request) -> Awaitable[Answer]:
        """Answer a request as `Dispatcher.serve`. No coroutine: one that is not chosen pays for the choice alone."""
        parent = self._choose(request.headers)
        return self._inner.serve(request) if parent is None else self._traced(request, parent)

    def malformed(self, request: Request) -> Awaitable[Answer]:
        """Answer bytes that are no HTTP request; they are never traced."""
        return self._inner.malformed(request)

    async def _traced(self, request: Request, parent: TraceContext) -> Answer:
        operation, id_text = self._inner.names(request)
        if operation in _LASTING:
            return await self._inner.serve(request)
        span = self._tracer.begin(f"gateway {operation}", Kind.SERVER, parent)
        span.attributes.update({"http.request.method": request.method, "hongbao.operation": operation})
        try:
            with sent_with(span):
                answer = await self._inner.serve(request)
        except BaseException as error:
            self._tracer.end(span, code_of(error))
            raise
        span.attributes["http.response.status_code"] = answer.status
        span.attributes["hongbao.request_id"] = answer.request_id.decode()
        if id_text.isdecimal():
            span.attributes["hongbao.envelope_id"] = id_text
        failed = answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        self._tracer.end(span, str(answer.status) if failed else "")
        return answer
