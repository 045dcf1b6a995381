"""One piece of work in a trace, and the tracer of a process that makes such spans and hands them to its exporter."""

import time
from collections.abc import Sequence
from enum import IntEnum
from typing import Protocol

import msgspec

from runtime.traces.context import TraceContext, new_span_id

Value = str | int | float | bool


class Kind(IntEnum):
    """What a span is to its callers; the numbers are those of OTLP."""

    INTERNAL = 1
    SERVER = 2
    CLIENT = 3


class Span(msgspec.Struct, eq=False):
    """A piece of work; times in nanoseconds since 1970. `error` is the code with which it failed, "" if it did not."""

    name: str
    kind: Kind
    context: TraceContext
    parent_id: bytes
    began_ns: int
    attributes: dict[str, Value]
    links: Sequence[TraceContext] = ()
    """Spans of other traces, or of this one, that it belongs to without being their child."""
    ended_ns: int = 0
    error: str = ""


class Sink(Protocol):
    """Takes spans that have ended (`runtime.traces.exporter.Exporter`)."""

    def add(self, span: Span) -> None:
        """Take a span, or drop it; returns at once."""

    async def run(self) -> None:
        """Send what was added, until cancelled."""


class Tracer:
    """Makes the spans of one process. `run` sends them; it belongs into the process's task group."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.run = sink.run

    def begin(
        self, name: str, kind: Kind, parent: TraceContext, began_ns: int = 0, links: Sequence[TraceContext] = ()
    ) -> Span:
        """Begin a span below `parent`, now or at `began_ns`."""
        context = TraceContext(parent.trace_id, new_span_id())
        return Span(name, kind, context, parent.span_id, began_ns or time.time_ns(), {}, links)

    def end(self, span: Span, error: str = "") -> None:
        """End a span now, with the code of an error if it failed, and have it sent."""
        span.ended_ns, span.error = time.time_ns(), error
        self._sink.add(span)
