"""Traces of chosen requests: which part of a request took how long, told to a collector of OpenTelemetry (floor 1).

What lives here: `context`, which trace and span a call belongs to, as 26 bytes and as the header `traceparent`; `span`,
one piece of work and the tracer that makes it; `otlp`, spans as the bytes that a collector reads; `exporter`, the queue
and the task that sends them; `start`, what a process makes of its settings; `limits`.

May import: `runtime`, `errors`. `opentelemetry.proto` is imported in `otlp` alone, and only where a collector is set.

Promise: a request that is not chosen makes no object of this room, and whoever chooses (`gateway.traces`) decides
before one is made. A collector that is away, slow or refuses costs spans, which are counted
(`hongbao_trace_spans_total`), and delays no reply and no stop (tests/integration/traces/test_collector.py). Spans hold
what logs show: no users, tokens, passwords or amounts (docs/operations/traces.md).

How it fails: Refused `settings_invalid` for an endpoint that is no URL. Nothing else is raised to whoever ends a span.
"""
