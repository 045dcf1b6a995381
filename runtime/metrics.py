"""Prometheus metrics: the registry and the kinds of metrics used. prometheus_client is imported only here.

Count per batch, not per request, on the path of an open: an `inc` is not free (docs/performance/notebook.md).
"""

from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)


class Definition(NamedTuple):
    """A metric as a room defines it: what the documentation says of it."""

    name: str
    kind: str
    text: str
    labels: tuple[str, ...] = ()


DEFINED: Final[list[Definition]] = []
"""Every metric of the modules that this process has imported."""


def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
    """Return a counter in the process's registry."""
    DEFINED.append(Definition(name, "counter", text, labels))
    return Counter(name, text, labels, registry=REGISTRY)


def gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
    """Return a gauge in the process's registry."""
    DEFINED.append(Definition(name, "gauge", text, labels))
    return Gauge(name, text, labels, registry=REGISTRY)


def seconds(name: str, text: str, labels: tuple[str, ...] = ()) -> Histogram:
    """Return a histogram of durations in seconds."""
    DEFINED.append(Definition(name, "histogram", text, labels))
    return Histogram(name, text, labels, buckets=SECONDS, registry=REGISTRY)


def sizes(name: str, text: str) -> Histogram:
    """Return a histogram of counts (batch sizes, depths)."""
    DEFINED.append(Definition(name, "histogram", text))
    return Histogram(name, text, buckets=SIZES, registry=REGISTRY)


def render() -> bytes:
    """Return the exposition text of all metrics of this process."""
    return generate_latest(REGISTRY)
