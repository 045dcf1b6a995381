"""What the project promises, as ratios within one run: machines differ, ratios less."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from loadtest.bench.latency import p99_ms_at

Sections = Mapping[str, Any]


@dataclass(frozen=True)
class Ratio:
    """A figure and the least it may be (with `most`: the most). `of` raises KeyError if a section is missing."""

    key: str
    what: str
    bar: float
    of: Callable[[Sections], float]
    most: bool = False

    def judge(self, sections: Sections) -> dict[str, Any] | None:
        """Return value, bar and whether it holds; None where this run has not measured it."""
        try:
            value = self.of(sections)
        except KeyError:
            return None
        return {"value": value, "bar": self.bar, "holds": value <= self.bar if self.most else value >= self.bar}


def _engine(sections: Sections, workload: str, baseline: str) -> float:
    contenders = sections["engine"]["workloads"][workload]["contenders"]
    return float(contenders["ours"]["median"] / contenders[baseline]["median"])


def _http(sections: Sections, contender: str, other: str) -> float:
    contenders = sections["http"]["contenders"]
    return float(contenders[contender]["median"] / contenders[other]["median"])


def _median(contenders: Mapping[str, Any], one: str, other: str) -> float:
    return float(contenders[one]["median"] / contenders[other]["median"])


RATIOS: Final[tuple[Ratio, ...]] = (
    Ratio(
        "hot100_vs_pessimistic",
        "one hot envelope, 100 waiting: ours / pessimistic lock, 100 connections",
        70,
        lambda s: _engine(s, "hot100", "pessimistic"),
    ),
    Ratio(
        "hot1000_vs_pessimistic",
        "one hot envelope, 1,000 waiting: ours / pessimistic lock, 100 connections",
        100,
        lambda s: _engine(s, "hot1000", "pessimistic"),
    ),
    Ratio(
        "many_vs_pessimistic",
        "many envelopes x 20: ours / pessimistic lock at its best pool",
        22,
        lambda s: _engine(s, "many", "pessimistic"),
    ),
    Ratio(
        "hot_vs_redis_always",
        "one hot envelope: ours, 1,000 waiting / Redis + Lua, AOF always, 20 connections of its C client",
        2.5,
        lambda s: _engine(s, "hot1000", "redis_always_c"),
    ),
    Ratio(
        "many_vs_redis_memory",
        "many envelopes x 20: ours, durable / Redis + Lua, nothing on disk, the same C client",
        1,
        lambda s: _engine(s, "many", "redis_memory_c"),
    ),
    Ratio(
        "many_vs_copy",
        "many envelopes x 20: ours / COPY of the same rows, 1,000 a transaction",
        0.55,
        lambda s: _engine(s, "many", "copy"),
    ),
    Ratio(
        "http_vs_pessimistic",
        "one hot envelope over HTTP, 256 connections: ours / pessimistic lock behind the same server",
        14,
        lambda s: _http(s, "ours_hot", "pessimistic_hot"),
    ),
    Ratio(
        "http_vs_constant",
        "over HTTP: ours / aiohttp answering a constant",
        0.7,
        lambda s: _http(s, "ours", "constant"),
    ),
    Ratio(
        "create_vs_open",
        "create over HTTP / open over HTTP",
        0.45,
        lambda s: _http(s, "create", "ours"),
    ),
    Ratio(
        "p99_ms_half_load",
        "open loop at 50 % of saturation, p99 ms",
        20.0,
        lambda s: p99_ms_at(s["latency"], 0.5),
        most=True,
    ),
    Ratio(
        "full_vs_empty",
        "opens/s, a month of full day tables / empty tables",
        0.85,
        lambda s: _median(s["growth"]["tables"]["opens_per_second"], "full", "empty"),
    ),
    Ratio(
        "cpu_1_vs_4_sets",
        "CPU of an open, 1 SET at work / 4 SETs, the same load at each",
        0.9,
        lambda s: _median(s["growth"]["sets"]["cpu_us_per_open"], "1", "4"),
    ),
    Ratio(
        "payout_vs_open",
        "credits/s drained / opens/s committed",
        1.0,
        lambda s: float(s["payouts"]["credits_per_second"] / s["payouts"]["opens_per_second"]),
    ),
    Ratio(
        "expiry_vs_create",
        "closings/s of due envelopes / creates/s, one server",
        0.8,
        lambda s: float(s["expiry"]["closings_per_second"] / s["expiry"]["creates_per_second"]),
    ),
    Ratio(
        "bytes_per_envelope",
        "bytes of a live envelope of 20 shares, half opened",
        3_000,
        lambda s: float(s["memory"]["bytes"]["half"]["resident"]),
        most=True,
    ),
    Ratio(
        "told_vs_alone",
        "opens/s over HTTP, a receiver is told of each / nobody is",
        0.95,
        lambda s: float(s["events"]["ratio"]),
    ),
    Ratio(
        "event_p99_ms",
        "claim to webhook at 500 opens/s, p99 ms",
        1_000,
        lambda s: float(s["events"]["paced"]["p99_ms"]),
        most=True,
    ),
    Ratio(
        "sync_vs_async",
        "one hot envelope, 1,000 waiting: commits wait for a standby on this machine / no standby",
        0.5,
        lambda s: float(s["replication"]["sync_vs_async"]),
    ),
    Ratio(
        "client_vs_hand",
        "opens/s of one process, our client / aiohttp by hand",
        0.9,
        lambda s: float(s["client"]["ratio"]),
    ),
    Ratio(
        "tls_vs_plain",
        "opens/s over HTTP, links over TLS / without",
        0.9,
        lambda s: float(s["tls"]["ratio"]),
    ),
)
