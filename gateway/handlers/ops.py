"""The operations for operators and developers: probes, metrics, the OpenAPI document and its page."""

import hmac
from collections.abc import Callable, Mapping
from typing import Any

from errors import Refused, Unavailable
from gateway.http.answer import JSON, Answer, encode_json, json_answer
from gateway.http.request import Request
from gateway.openapi import document
from gateway.openapi.page import render_docs
from gateway.request_metrics import RequestMetrics
from gateway.resources import Resource
from runtime import metrics
from runtime.http import Readiness

_HTML = "text/html; charset=utf-8"
_TEXT = "text/plain; version=0.0.4; charset=utf-8"
# The page may use its own style, and load nothing.
_POLICY = b"Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'\r\n"


class OpsHandlers:
    """One method per operation. None asks for a user's token; metrics ask for a key of their own."""

    def __init__(
        self,
        readiness: Readiness,
        away: Callable[[], Mapping[str, Any]],
        request_metrics: RequestMetrics,
        metrics_key: str,
        *,
        handbook: bool = False,
        sandbox_now: Callable[[], str] | None = None,
    ) -> None:
        """`away` returns the members of an answer to `/readyz` that name what the gateway does without just now.

        `handbook`: the documentation site is served below `/docs/`; the page of the document leads there.

        `sandbox_now` tells the time of a sandbox, for the page.
        """
        self._readiness = readiness
        self._away = away
        self._metrics_key = metrics_key
        self._request_metrics = request_metrics
        self._sandbox_now = sandbox_now
        spec = document()
        self._openapi = encode_json(spec)
        self._docs = render_docs(spec, handbook=handbook).encode()

    async def openapi(self, request: Request, _: Resource) -> Answer:
        """Return the OpenAPI document."""
        del request
        return Answer(200, self._openapi, JSON)

    async def docs(self, request: Request, _: Resource) -> Answer:
        """Return the document as a page."""
        del request
        return Answer(200, self._docs, _HTML, headers=_POLICY)

    async def health(self, request: Request, _: Resource) -> Answer:
        """Say that the event loop runs."""
        del request
        return json_answer({"status": "ok"})

    async def readiness(self, request: Request, _: Resource) -> Answer:
        """Say that users can be served, and what is away; raises Unavailable `not_ready` with what lacks.

        The names of the SETs are in the metrics, for operators: this answer is for everybody.
        """
        del request
        missing = self._readiness.missing()
        if missing:
            raise Unavailable("not_ready", f"waiting for {', '.join(missing)}")
        there = {} if self._sandbox_now is None else {"sandbox_now": self._sandbox_now()}
        return json_answer({"status": "ready", **self._away(), **there})

    async def exposition(self, request: Request, _: Resource) -> Answer:
        """Return the metrics of this process; raises Refused `metrics_key_missing`."""
        if not self._is_operator(request):
            raise Refused(
                "metrics_key_missing", "metrics are for operators: send Authorization: Bearer and HONGBAO_METRICS_KEY"
            )
        await self._request_metrics.publish()
        return Answer(200, metrics.render(), _TEXT)

    def _is_operator(self, request: Request) -> bool:
        # Without a key in the settings nobody is: this port is open to the world.
        given = (request.authorization or "").encode("utf-8", "surrogateescape")
        return bool(self._metrics_key) and hmac.compare_digest(given, f"Bearer {self._metrics_key}".encode())
