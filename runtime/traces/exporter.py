"""Sends spans to a collector: a queue with a bound, and a task that empties it. What cannot be sent is dropped."""

import asyncio
from collections import deque
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from runtime import logs, metrics
from runtime.traces.limits import BATCH_SPANS, EXPORT_EVERY_S, MOST_PAUSE_S, QUEUED_SPANS, SEND_S
from runtime.traces.otlp import encode
from runtime.traces.span import Span, Value

_HEADERS: Final = {"Content-Type": "application/x-protobuf"}
_log = logs.get("traces")
_spans = metrics.counter("hongbao_trace_spans_total", "Spans by what became of them: sent, or dropped", ("result",))


def _without_login(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))


class Exporter:
    """The spans of one process on their way to the collector at `url`; `resource` names the process."""

    def __init__(self, url: str, resource: Mapping[str, Value], *, every_s: float = EXPORT_EVERY_S) -> None:
        self._url = url
        self._resource = resource
        self._every_s = every_s
        self._queue: deque[Span] = deque()
        self._failures = 0

    def add(self, span: Span) -> None:
        """Queue a span; drop it if as many wait as there is room for."""
        if len(self._queue) >= QUEUED_SPANS:
            _spans.labels("dropped").inc()
        else:
            self._queue.append(span)

    async def run(self) -> None:
        """Send until cancelled; what has not been sent then is dropped."""
        timeout = aiohttp.ClientTimeout(total=SEND_S)
        try:
            async with aiohttp.ClientSession(timeout=timeout) as session:
                while True:
                    await asyncio.sleep(min(MOST_PAUSE_S, self._every_s * 2**self._failures))
                    while self._queue and await self._send(session):
                        pass
        finally:
            _spans.labels("dropped").inc(len(self._queue))
            self._queue.clear()

    async def _send(self, session: aiohttp.ClientSession) -> bool:
        """Send one batch; return whether the collector took it. A batch that it does not take is not sent again."""
        queue = self._queue
        batch = [queue.popleft() for _ in range(min(BATCH_SPANS, len(queue)))]
        result, why = "dropped", ""
        try:
            body = encode(batch, self._resource)
            async with session.post(self._url, data=body, headers=_HEADERS, allow_redirects=False) as answer:
                if HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
                    result = "sent"
                else:
                    why = f"it answers {answer.status}"
        except Exception as error:  # noqa: BLE001 - whatever it was, requests do not depend on it
            why = f"{type(error).__name__}: {error}"
        finally:
            _spans.labels(result).inc(len(batch))
        if why and not self._failures:
            where = _without_login(self._url)
            _log.warning("spans are dropped: the collector of traces does not take them", url=where, error=why)
        self._failures = min(self._failures + 1, 10) if why else 0
        return not why
