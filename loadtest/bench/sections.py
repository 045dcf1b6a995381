"""The sections of the benchmark, in the order in which they run."""

from typing import Final

from loadtest.bench import (
    client,
    commits,
    connections,
    cpu,
    engine,
    events,
    expiry,
    footprint,
    growth,
    http,
    latency,
    objects,
    observing,
    payouts,
    plots,
    recovery,
    replication,
    tls,
    watchers,
)
from loadtest.bench.figures import Section

SECTIONS: Final = (
    Section("engine", "claims inside one SET, beside the baselines", engine.measure, engine.rows, plots.engine),
    Section("http", "opens through the gateway, beside the same server without", http.measure, http.rows, plots.http),
    Section("connections", "what connections cost a lock", connections.measure, connections.rows, plots.connections),
    Section("latency", "open loop at shares of saturation", latency.measure, latency.rows, latency.plots),
    commits.SECTION,
    growth.SECTION,
    footprint.SECTION,
    cpu.SECTION,
    payouts.SECTION,
    expiry.SECTION,
    watchers.SECTION,
    events.SECTION,
    client.SECTION,
    replication.SECTION,
    objects.SECTION,
    tls.SECTION,
    observing.SECTION,
    recovery.SECTION,
)
