"""Spans as OTLP: the protobuf messages that every collector of OpenTelemetry reads."""

from collections.abc import Iterable, Mapping

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1 import trace_pb2

from runtime.traces.context import TraceContext
from runtime.traces.span import Span, Value
from runtime.version import VERSION

_SCOPE = InstrumentationScope(name="hongbao", version=VERSION)


def encode(spans: Iterable[Span], resource: Mapping[str, Value]) -> bytes:
    """Return an ExportTraceServiceRequest; `resource` names the process, such as `service.name`."""
    scoped = trace_pb2.ScopeSpans(scope=_SCOPE, spans=[_span(one) for one in spans])
    whole = trace_pb2.ResourceSpans(resource=Resource(attributes=_pairs(resource)), scope_spans=[scoped])
    return bytes(ExportTraceServiceRequest(resource_spans=[whole]).SerializeToString())


def _span(span: Span) -> trace_pb2.Span:
    status = trace_pb2.Status(code=trace_pb2.Status.STATUS_CODE_ERROR, message=span.error) if span.error else None
    return trace_pb2.Span(
        trace_id=span.context.trace_id,
        span_id=span.context.span_id,
        parent_span_id=span.parent_id,
        name=span.name,
        kind=trace_pb2.Span.SpanKind.Name(span.kind),
        start_time_unix_nano=span.began_ns,
        end_time_unix_nano=span.ended_ns,
        attributes=_pairs(span.attributes),
        links=[_link(one) for one in span.links],
        status=status,
    )


def _link(context: TraceContext) -> trace_pb2.Span.Link:
    return trace_pb2.Span.Link(trace_id=context.trace_id, span_id=context.span_id)


def _pairs(values: Mapping[str, Value]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_any(value)) for key, value in values.items()]


def _any(value: Value) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    return AnyValue(double_value=value) if isinstance(value, float) else AnyValue(string_value=value)
