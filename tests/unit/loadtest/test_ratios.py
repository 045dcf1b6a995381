from typing import Any

import pytest

from loadtest.bench.ratios import RATIOS, Ratio

BARS = {
    "hot100_vs_pessimistic": 70,
    "hot1000_vs_pessimistic": 100,
    "many_vs_pessimistic": 22,
    "hot_vs_redis_always": 2.5,
    "many_vs_redis_memory": 1,
    "many_vs_copy": 0.55,
    "http_vs_pessimistic": 14,
    "http_vs_constant": 0.7,
    "create_vs_open": 0.45,
    "told_vs_alone": 0.95,
    "event_p99_ms": 1_000,
    "client_vs_hand": 0.9,
    "tls_vs_plain": 0.9,
}


def _medians(**medians: float) -> dict[str, Any]:
    return {"contenders": {name: {"median": median} for name, median in medians.items()}}


SECTIONS = {
    "engine": {
        "workloads": {
            "hot100": _medians(ours=7_000, pessimistic=100),
            "hot1000": _medians(ours=9_000, pessimistic=100, redis_always_c=3_000),
            "many": _medians(ours=4_000, pessimistic=200, redis_memory_c=4_000, copy=8_000),
        }
    },
    "events": {"ratio": 0.94, "paced": {"p99_ms": 120.0}},
    "client": {"ratio": 0.92},
    "tls": {"ratio": 0.89},
    "http": _medians(ours=1_400, pessimistic=500, ours_hot=1_540, pessimistic_hot=110, constant=1_750, create=700),
}


def test_the_promises_of_the_issue_are_all_there() -> None:
    """Each promised figure has its key and its bar."""
    promised = {ratio.key: ratio.bar for ratio in RATIOS}
    assert promised.items() >= BARS.items()
    assert len(promised) == len(RATIOS)


@pytest.mark.parametrize(
    ("key", "value", "holds"),
    [
        ("hot100_vs_pessimistic", 70, True),
        ("hot1000_vs_pessimistic", 90, False),
        ("many_vs_pessimistic", 20, False),
        ("hot_vs_redis_always", 3, True),
        ("many_vs_redis_memory", 1, True),
        ("many_vs_copy", 0.5, False),
        ("http_vs_pessimistic", 14, True),
        ("http_vs_constant", 0.8, True),
        ("create_vs_open", 0.5, True),
        ("told_vs_alone", 0.94, False),
        ("event_p99_ms", 120, True),
        ("client_vs_hand", 0.92, True),
        ("tls_vs_plain", 0.89, False),
    ],
)
def test_a_ratio_divides_the_right_figures(key: str, value: float, holds: bool) -> None:
    """Each ratio is ours over the contender that its name says; a bar that is just reached holds."""
    ratio = next(one for one in RATIOS if one.key == key)
    assert ratio.judge(SECTIONS) == {"value": pytest.approx(value), "bar": BARS[key], "holds": holds}


def test_what_was_not_measured_is_not_judged() -> None:
    """A run of some sections says nothing about the ratios of the others."""
    assert [ratio.key for ratio in RATIOS if ratio.key in BARS and ratio.judge({}) is not None] == []


def test_a_bar_can_be_a_most() -> None:
    """For times and sizes less is better."""
    ratio = Ratio("p99", "p99", 20, lambda s: float(s["ms"]), most=True)
    assert ratio.judge({"ms": 20}) == {"value": 20, "bar": 20, "holds": True}
    assert ratio.judge({"ms": 21}) == {"value": 21, "bar": 20, "holds": False}
