"""A collector of traces for tests: takes OTLP over HTTP, decodes it, and misbehaves on demand."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from runtime.http import HttpServer


@dataclass
class Told:
    """One span, with the name of the service that has sent it."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    error: str
    links: list[str]
    seconds: float


@dataclass
class Collector:
    """What came; `status` is its answer, and while `stuck` is set it gives none."""

    url: str = ""
    status: int = 200
    stuck: bool = False
    calls: int = 0
    spans: list[Told] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.Response:
        """Take a call."""
        assert request.content_type == "application/x-protobuf"
        body = await request.read()
        self.calls += 1
        if self.stuck:
            await asyncio.Event().wait()
        if self.status == 200:
            self.spans += _decode(body)
        return web.Response(status=self.status)

    async def until(self, holds: Callable[[list[Told]], bool], within_s: float = 20.0) -> None:
        """Wait for spans."""
        async with asyncio.timeout(within_s):
            while not holds(self.spans):
                await asyncio.sleep(0.02)


def _decode(body: bytes) -> list[Told]:
    told = ExportTraceServiceRequest.FromString(body)
    return [
        Told(
            next(one.value.string_value for one in whole.resource.attributes if one.key == "service.name"),
            span.name,
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes},
            span.status.message if span.status.code == 2 else "",
            [one.span_id.hex() for one in span.links],
            (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
        )
        for whole in told.resource_spans
        for scoped in whole.scope_spans
        for span in scoped.spans
    ]


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    """Run a collector for the block."""
    one, app = Collector(), web.Application()
    app.router.add_post("/v1/traces", one.take)
    async with HttpServer(app, "127.0.0.1", 0) as server:
        one.url = f"http://127.0.0.1:{server.port}"
        yield one
