"""The model of group commit, against a simulation of every batch, and its fit."""

import random
from dataclasses import replace

import pytest

from errors import Refused
from loadtest.group_commit import GroupCommit, fit, quantile

STEADY = GroupCommit(fixed_s=0.002, per_row_s=20e-6, most=2_000)


def simulate(model: GroupCommit, rate: float, opens: int, seed: int = 2) -> list[float]:
    """The latencies of so many opens that arrive at random: what waits at the end of a batch goes into the next."""
    dice = random.Random(seed)
    arrivals, now = [], 0.0
    for _ in range(opens):
        now += dice.expovariate(rate)
        arrivals.append(now)
    latencies: list[float] = []
    now = 0.0
    while len(latencies) < opens:
        first = len(latencies)
        now = max(now, arrivals[first])
        last = first
        while last < opens and arrivals[last] <= now and last - first < model.most:
            last += 1
        now += model.batch_s(last - first)
        latencies += [now - arrived for arrived in arrivals[first:last]]
    return latencies


@pytest.mark.parametrize("part", [0.2, 0.3, 0.5, 0.7, 0.8])
def test_the_closed_form_is_what_a_simulation_shows(part: float) -> None:
    """Without variation p50 is within a tenth of an independent simulation, p99 within 15 %."""
    rate = part * STEADY.capacity
    said, seen = STEADY.latency(rate), simulate(STEADY, rate, 60_000)
    assert said.p50_s == pytest.approx(quantile(seen, 0.5), rel=0.1)
    assert said.p99_s == pytest.approx(quantile(seen, 0.99), rel=0.15)


def test_an_open_that_comes_alone_takes_the_time_of_a_batch_of_one() -> None:
    """At next to no load there is no batch in flight to wait for."""
    assert STEADY.latency(0.1).p50_s == pytest.approx(STEADY.batch_s(1), rel=1e-3)
    assert quantile(simulate(STEADY, 0.1, 1_000), 0.5) == pytest.approx(STEADY.batch_s(1), rel=1e-6)


@pytest.mark.parametrize("rate", [0.0, -1.0, STEADY.capacity, 2 * STEADY.capacity])
def test_a_rate_without_a_steady_state_is_refused(rate: float) -> None:
    """At or above the capacity there is no answer, and none is made up."""
    with pytest.raises(Refused, match="capacity"):
        STEADY.latency(rate)


def test_more_load_never_waits_shorter() -> None:
    """p50 and p99 grow with the rate, from a single open up to nearly the capacity."""
    rates = [1.0, 100.0, *(part * STEADY.capacity for part in (0.01, 0.05, 0.1, 0.5, 0.9, 0.99))]
    found = [STEADY.latency(rate) for rate in rates]
    assert [one.p50_s for one in found] == sorted(one.p50_s for one in found)
    assert [one.p99_s for one in found] == sorted(one.p99_s for one in found)


def batches(sizes: list[int], count: int, seed: int = 3) -> list[tuple[int, float]]:
    """Batches as STEADY takes them, one in a hundred delayed by 20 ms."""
    dice = random.Random(seed)
    return [
        (size, STEADY.batch_s(size) * dice.uniform(0.9, 1.1) + (0.02 if dice.random() < 0.01 else 0.0))
        for size in dice.choices(sizes, k=count)
    ]


def test_fit_finds_what_made_the_batches() -> None:
    """Fixed part and part per row come back from batches that vary, and a slow one in a hundred moves neither."""
    found = fit(batches([1, 4, 20, 100, 500, 1_500], 4_000), STEADY.most)
    assert found.fixed_s == pytest.approx(STEADY.fixed_s, rel=0.05)
    assert found.per_row_s == pytest.approx(STEADY.per_row_s, rel=0.05)
    assert (found.most, found.stall_s) == (STEADY.most, 0.0)


def test_one_odd_batch_does_not_turn_the_line() -> None:
    """A single large batch that took next to nothing (it ended just behind another) leaves the fit as it was."""
    usual = batches([1, 4, 16, 64, 250], 1_500)
    found = fit([*usual, (800, STEADY.fixed_s / 2)], STEADY.most)
    assert found.capacity == pytest.approx(fit(usual, STEADY.most).capacity, rel=0.01)


def test_few_batches_are_better_than_none() -> None:
    """Where no class has enough batches all classes count."""
    found = fit([(size, STEADY.batch_s(size)) for size in (1, 10, 100)], STEADY.most)
    assert found.fixed_s == pytest.approx(STEADY.fixed_s, rel=1e-6)


def test_batches_of_one_size_say_nothing() -> None:
    """A line through one point is no line."""
    with pytest.raises(Refused, match="one size"):
        fit([(10, 0.001), (10, 0.002)], 100)


def test_the_stall_is_what_opens_met_over_two_batches() -> None:
    """The median of the loads; a load at or above the capacity has no batch to compare with and does not count."""
    exact = [(size, STEADY.batch_s(size)) for size in (1, 10, 100)]
    rates = [part * STEADY.capacity for part in (0.2, 0.4, 0.6)]
    stalled = [replace(STEADY, stall_s=stall_s) for stall_s in (0.001, 0.003, 0.05)]
    seen = [(rate, [model.latency(rate).p99_s] * 10) for rate, model in zip(rates, stalled, strict=True)]
    found = fit(exact, STEADY.most, [*seen, (2 * STEADY.capacity, [9.0])])
    assert found.stall_s == pytest.approx(0.003)
    assert fit(exact, STEADY.most, [(rates[0], [1e-6] * 10)]).stall_s == 0.0


def test_a_stall_delays_by_itself_and_by_the_claims_that_gather_meanwhile() -> None:
    """It adds s (1 + r b) to p99 and nothing to p50."""
    rate = 0.5 * STEADY.capacity
    calm, stalled = STEADY.latency(rate), replace(STEADY, stall_s=0.01).latency(rate)
    assert stalled.p99_s - calm.p99_s == pytest.approx(0.01 + rate * 0.01 * STEADY.per_row_s)
    assert stalled.p50_s == calm.p50_s


def test_a_quantile_is_one_of_the_values() -> None:
    """Whatever their order."""
    assert [quantile([3.0, 1.0, 2.0, 4.0], part) for part in (0.0, 0.5, 0.99)] == [1.0, 3.0, 4.0]
