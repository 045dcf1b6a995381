"""Spans reach a collector; one that is away, slow or refuses costs spans and nothing else."""

import asyncio
import time
from typing import Any

import pytest

from errors import Refused
from machine.ports import free_port
from runtime import metrics
from runtime.traces.context import new_trace
from runtime.traces.exporter import Exporter
from runtime.traces.limits import BATCH_SPANS, QUEUED_SPANS
from runtime.traces.span import Kind, Span, Tracer
from runtime.traces.start import tracer_of
from tests.integration.traces.collector import collecting

RESOURCE = {"service.name": "hongbao-test"}


def counted(result: str) -> float:
    return metrics.REGISTRY.get_sample_value("hongbao_trace_spans_total", {"result": result}) or 0.0


def span() -> Span:
    one = Tracer(Exporter("", RESOURCE)).begin("work", Kind.SERVER, new_trace(), time.time_ns())
    one.ended_ns = one.began_ns + 1_000
    return one


async def test_a_collector_gets_every_span_in_batches() -> None:
    """More spans than fit into one call arrive in several, with what is in them."""
    async with collecting() as collector:
        exporter = Exporter(f"{collector.url}/v1/traces", RESOURCE, every_s=0.01)
        parent = span()
        child = Tracer(exporter).begin("child", Kind.INTERNAL, parent.context, links=(parent.context,))
        child.attributes = {"text": "ä", "number": 3, "part": 0.5, "yes": True}
        Tracer(exporter).end(child, "sold_out")
        for _ in range(BATCH_SPANS):
            exporter.add(span())
        sending = asyncio.ensure_future(exporter.run())
        await collector.until(lambda spans: len(spans) > BATCH_SPANS)
        sending.cancel()
        await asyncio.wait({sending})
    told = collector.spans[0]
    assert (told.service, told.name, told.error) == ("hongbao-test", "child", "sold_out")
    assert (told.trace, told.parent) == (parent.context.trace_id.hex(), parent.context.span_id.hex())
    assert told.links == [parent.context.span_id.hex()]
    assert told.attributes == {"text": "ä", "number": 3, "part": 0.5, "yes": True}
    assert collector.calls == 2


@pytest.mark.parametrize("fault", ["away", "refuses", "stuck"])
async def test_a_collector_that_fails_costs_spans_alone(fault: str) -> None:
    """Whatever is wrong with the collector, a span is added at once, what is lost is counted, the end is quick."""
    async with collecting() as collector:
        collector.status, collector.stuck = (503, False) if fault == "refuses" else (200, fault == "stuck")
        url = f"http://127.0.0.1:{free_port()}" if fault == "away" else collector.url
        exporter = Exporter(f"{url}/v1/traces", RESOURCE, every_s=0.01)
        before = counted("dropped")
        sending = asyncio.ensure_future(exporter.run())
        exporter.add(span())
        async with asyncio.timeout(10):
            while (collector.calls if fault == "stuck" else counted("dropped") - before) < 1:
                await asyncio.sleep(0.01)
        one, many = span(), QUEUED_SPANS + 10
        began = time.perf_counter()
        for _ in range(many):
            exporter.add(one)
        assert (time.perf_counter() - began) / many < 50e-6
        assert len(exporter._queue) <= QUEUED_SPANS
        began = time.perf_counter()
        sending.cancel()
        await asyncio.wait({sending}, timeout=5)
        assert sending.cancelled()
        assert time.perf_counter() - began < 1.0
        assert counted("dropped") - before == many + 1


@pytest.mark.parametrize("endpoint", ["collector:4318", "ftp://collector", "http://"])
def test_an_endpoint_that_is_no_url_is_refused(endpoint: str) -> None:
    """A process with a malformed endpoint does not start, and says how it is written."""
    with pytest.raises(Refused, match="HONGBAO_TRACE_ENDPOINT: write it as http"):
        tracer_of(endpoint, "gateway", "one")


def test_without_an_endpoint_there_is_no_tracer() -> None:
    """A process without a collector makes nothing for traces."""
    assert tracer_of("", "gateway", "one") is None


def test_the_path_of_otlp_is_added_to_a_bare_address() -> None:
    """A bare address means the standard path; one with a path is taken as it is."""
    sinks: list[Any] = [tracer_of(one, "g", "1") for one in ("http://c:4318/", "http://c/other/v1/traces")]
    assert [one._sink._url for one in sinks] == ["http://c:4318/v1/traces", "http://c/other/v1/traces"]
