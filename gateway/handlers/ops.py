"""The operations for operators and developers: probes, metrics, the OpenAPI document and its page."""

from errors import Unavailable
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
    """One method per operation. None of them asks for a token."""

    def __init__(self, readiness: Readiness, request_metrics: RequestMetrics) -> None:
        self._readiness = readiness
        self._request_metrics = request_metrics
        spec = document()
        self._openapi = encode_json(spec)
        self._docs = render_docs(spec).encode()

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
        """Say that every part is connected; raises Unavailable `not_ready` with the names of those that are not."""
        del request
        missing = self._readiness.missing()
        if missing:
            raise Unavailable("not_ready", f"waiting for {', '.join(missing)}")
        return json_answer({"status": "ready"})

    async def exposition(self, request: Request, _: Resource) -> Answer:
        """Return the metrics of this process."""
        del request
        await self._request_metrics.publish()
        return Answer(200, metrics.render(), _TEXT)
