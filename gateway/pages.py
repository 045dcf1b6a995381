"""The handlers of what is not about envelopes: probes, metrics, the OpenAPI document and its page."""

from envelope.errors import Unavailable
from gateway.docs import render_docs
from gateway.http.answer import JSON, Answer, encode_json, json_answer
from gateway.http.request import Request
from gateway.openapi import document
from gateway.traffic import Traffic
from runtime import metrics
from runtime.http import Readiness

_HTML = "text/html; charset=utf-8"
_TEXT = "text/plain; version=0.0.4; charset=utf-8"
# The page needs its own style and nothing else, from nowhere else.
_POLICY = b"Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'\r\n"


class Pages:
    """One method per route. None of them needs a token."""

    def __init__(self, readiness: Readiness, traffic: Traffic) -> None:
        self._readiness = readiness
        self._traffic = traffic
        spec = document()
        self._openapi = encode_json(spec)
        self._docs = render_docs(spec).encode()

    async def openapi(self, request: Request, _: str) -> Answer:
        """Return the OpenAPI document."""
        del request
        return Answer(200, self._openapi, JSON)

    async def docs(self, request: Request, _: str) -> Answer:
        """Return the document as a page."""
        del request
        return Answer(200, self._docs, _HTML, headers=_POLICY)

    async def health(self, request: Request, _: str) -> Answer:
        """Say that the loop turns."""
        del request
        return json_answer({"status": "ok"})

    async def readiness(self, request: Request, _: str) -> Answer:
        """Say that every part is connected; Unavailable `not_ready` with the names of those that are not."""
        del request
        missing = self._readiness.missing()
        if missing:
            raise Unavailable("not_ready", f"waiting for {', '.join(missing)}")
        return json_answer({"status": "ready"})

    async def exposition(self, request: Request, _: str) -> Answer:
        """Return the metrics of this process."""
        del request
        await self._traffic.publish()
        return Answer(200, metrics.render(), _TEXT)
