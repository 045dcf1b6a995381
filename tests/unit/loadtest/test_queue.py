"""The model of group commit, against a discrete-event simulation, Neuts' chain and the closed form."""

import heapq
import math
import random
from dataclasses import replace

import pytest

from envelope.errors import Refused
from loadtest.plan.queue import NO_STALLS, Service, Stalls, fit, fluid, predict, quantile, walk

STEADY = Service(fixed_s=0.002, per_row_s=20e-6, most=2_000)
NOISY = Service(fixed_s=0.002, per_row_s=20e-6, most=2_000, spreads=[(1, [0.9] * 80 + [1.4] * 20)])

STALLED = Service(0.002, 35e-6, most=100, spreads=[(1, [0.9, 1.0, 1.1])], stalls=Stalls(10.0, (0.008, 0.010, 0.012)))


def simulate(service: Service, rate: float, arrivals: int, seed: int) -> list[float]:
    """Every arrival and every end of service is an event; written without the embedded chain."""
    dice = random.Random(seed)
    events: list[tuple[float, str]] = [(dice.expovariate(rate), "arrival")]
    line: list[float] = []
    served: list[float] = []
    batch: list[float] = []
    left, busy = arrivals, False
    while events:
        now, what = heapq.heappop(events)
        if what == "arrival":
            line.append(now)
            left -= 1
            if left:
                heapq.heappush(events, (now + dice.expovariate(rate), "arrival"))
        else:
            served += [now - arrived for arrived in batch]
            busy = False
        if line and not busy:
            batch, line, busy = line[: service.most], line[service.most :], True
            length = service.mean_s(len(batch)) * dice.choice(service.factors(len(batch)))
            stalls = service.stalls
            length += sum(dice.choice(stalls.lengths_s) for _ in range(drawn(stalls.per_s * length, dice)))
            heapq.heappush(events, (now + length, "end"))
    return served


def drawn(mean: float, dice: random.Random) -> int:
    """A Poisson number by inversion."""
    left, number = dice.random(), 0
    while mean and left > (chance := poisson(mean, number)):
        left, number = left - chance, number + 1
    return number


@pytest.mark.parametrize("service", [STEADY, NOISY], ids=["steady", "noisy"])
@pytest.mark.parametrize("part", [0.1, 0.3, 0.5, 0.7])
def test_the_model_says_what_a_simulation_of_every_event_shows(service: Service, part: float) -> None:
    """Median and p99 predicted are those of an independent simulation, within a tenth."""
    rate = part * service.capacity
    said, seen = (
        predict(service, rate),
        simulate(service, rate, max(60_000, int(6_000 * fluid(service, rate)[0])), seed=2),
    )
    assert said.p50_s == pytest.approx(quantile(seen, 0.5), rel=0.1)
    assert said.p99_s == pytest.approx(quantile(seen, 0.99), rel=0.1)


@pytest.mark.parametrize("part", [0.1, 0.3, 0.5])
def test_stalls_are_in_the_tail_as_a_simulation_shows_them(part: float) -> None:
    """Ten stalls a second make the p99, predicted within a sixth: they are few, in either."""
    rate = part * STALLED.capacity
    said, seen = predict(STALLED, rate), simulate(STALLED, rate, int(40 * rate), seed=2)
    assert said.p50_s == pytest.approx(quantile(seen, 0.5), rel=0.1)
    assert said.p99_s == pytest.approx(quantile(seen, 0.99), rel=0.16)
    assert said.p99_s > 2 * predict(replace(STALLED, stalls=NO_STALLS), rate).p99_s


@pytest.mark.parametrize("part", [0.3, 0.5, 0.7])
def test_without_variation_it_is_the_closed_form(part: float) -> None:
    """Batches settle at rate * T with T = fixed / (1 - rate * per_row), and latency is uniform between T and 2 T."""
    said = predict(STEADY, rate := part * STEADY.capacity)
    rows, cycle = fluid(STEADY, rate)
    assert said.rows == pytest.approx(rows, rel=0.05)
    assert said.cycle_s == pytest.approx(cycle, rel=0.05)
    assert said.p50_s == pytest.approx(1.5 * cycle, rel=0.1)
    assert said.p99_s == pytest.approx(1.99 * cycle, rel=0.15)


def test_batches_are_as_the_embedded_chain_says() -> None:
    """The mean size of a batch is that of the stationary distribution of Neuts' chain."""
    service = Service(fixed_s=0.001, per_row_s=50e-6, most=40)
    rate = 0.6 * service.capacity
    waiting = stationary(service, rate, states=200)
    rows = sum(chance * (min(number, service.most) or 1) for number, chance in enumerate(waiting))
    assert predict(service, rate).rows == pytest.approx(rows, rel=0.03)


def stationary(service: Service, rate: float, states: int) -> list[float]:
    """The distribution of the number waiting at the end of a service: q' = q - n + Poisson(rate * S(n))."""
    steps = []
    for waiting in range(states):
        taken = min(waiting, service.most) or 1
        mean = rate * service.mean_s(taken)
        left = max(0, waiting - service.most)
        steps.append([0.0] * left + [poisson(mean, number) for number in range(states - left)])
    now = [1.0] + [0.0] * (states - 1)
    for _ in range(300):
        now = [sum(now[one] * steps[one][other] for one in range(states)) for other in range(states)]
    return now


def poisson(mean: float, number: int) -> float:
    return math.exp(number * math.log(mean) - mean - math.lgamma(number + 1))


def test_whoever_comes_alone_waits_for_nobody() -> None:
    """At next to no load an open takes the time of a batch of one."""
    said = predict(STEADY, 1.0)
    assert said.p50_s == pytest.approx(STEADY.mean_s(1), rel=1e-6)
    assert said.rows == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("rate", [0.0, -1.0, STEADY.capacity, 2 * STEADY.capacity])
def test_a_rate_that_no_queue_survives_is_refused(rate: float) -> None:
    """At or past the capacity there is no answer, and none is made up."""
    with pytest.raises(Refused, match="capacity"):
        predict(STEADY, rate)


def test_fit_finds_what_made_the_batches() -> None:
    """Fixed part, part per row and spread come back from batches drawn with them."""
    dice = random.Random(3)
    sizes = [dice.choice([1, 4, 20, 100, 500, 1_500]) for _ in range(4_000)]
    found = fit([(size, NOISY.draw(size, dice)[0]) for size in sizes], NOISY.most)
    assert found.fixed_s == pytest.approx(NOISY.fixed_s, rel=0.05)
    assert found.per_row_s == pytest.approx(NOISY.per_row_s, rel=0.05)
    assert quantile(found.factors(500), 0.9) == pytest.approx(1.4, rel=0.05)


def test_one_odd_batch_does_not_turn_the_line() -> None:
    """A single large batch that took next to nothing (it ended just behind another) leaves the fit as it was."""
    dice = random.Random(6)
    batches = [(size, STEADY.mean_s(size)) for size in dice.choices([1, 4, 16, 64, 250], k=1_500)]
    found = fit([*batches, (800, STEADY.fixed_s / 2)], STEADY.most)
    assert found.capacity == pytest.approx(fit(batches, STEADY.most).capacity, rel=0.01)


def test_small_batches_have_a_spread_of_their_own() -> None:
    """Where one in ten small batches takes twice as long and no large one does, the fit says so of each size."""
    dice = random.Random(4)
    batches = [(2, STEADY.mean_s(2) * (2 if dice.random() < 0.1 else 1)) for _ in range(1_000)]
    batches += [(800, STEADY.mean_s(800)) for _ in range(1_000)]
    found = fit(batches, STEADY.most)
    small, large = found.factors(2), found.factors(800)
    assert quantile(small, 0.95) == pytest.approx(2 * quantile(small, 0.5))
    assert quantile(large, 0.99) == pytest.approx(quantile(large, 0.5))
    assert found.factors(1) == small
    assert found.factors(2_000) == large


def test_stalls_are_counted_by_time_and_not_by_batch() -> None:
    """Stalls come back as drawn from batches of which a large one meets three times as many as a small one."""
    dice = random.Random(5)
    sizes = [dice.choice([1, 10, 40, 100]) for _ in range(20_000)]
    found = fit([(size, STALLED.draw(size, dice)[0]) for size in sizes], STALLED.most)
    assert found.stalls.per_s == pytest.approx(STALLED.stalls.per_s, rel=0.2)
    assert quantile(found.stalls.lengths_s, 0.5) == pytest.approx(0.01, abs=0.001)
    assert found.fixed_s == pytest.approx(STALLED.fixed_s, rel=0.05)
    assert found.capacity == pytest.approx(STALLED.capacity, rel=0.05)


def test_stalls_of_long_batches_stay_in_their_factors() -> None:
    """Long batches are drawn as they were measured, and short ones as well, however few there are of either."""
    dice = random.Random(7)
    stalled = replace(STALLED, per_row_s=100e-6, most=1_000)

    def took(size: int) -> float:
        length = stalled.mean_s(size)
        return length + sum(stalled.stalls.within(length, dice))

    batches = [(size, took(size)) for size in (1, 10) for _ in range(4_000)] + [(400, took(400)) for _ in range(100)]
    found = fit(batches, stalled.most)
    assert found.stalls_show(10)
    assert not found.stalls_show(400)
    for size in (10, 400):
        drawn_s = [found.draw(size, dice)[0] for _ in range(20_000)]
        seen_s = [seconds for rows, seconds in batches if rows == size]
        assert sum(drawn_s) / len(drawn_s) == pytest.approx(sum(seen_s) / len(seen_s), rel=0.08)


def test_without_stalls_none_are_found() -> None:
    """Variation alone is not taken for stalls."""
    dice = random.Random(6)
    found = fit([(size, NOISY.draw(size, dice)[0]) for size in (1, 4, 20) for _ in range(500)], NOISY.most)
    assert not list(found.stalls.lengths_s)
    assert found.stalls.part == 0


def test_a_walk_serves_everybody_in_the_order_of_arrival() -> None:
    """Three that wait go together, up to `most`; latency counts from the instant that each brings along."""
    service = Service(fixed_s=1.0, per_row_s=0.0, most=2)
    batches = list(walk(service, [(0.0, -1.0), (0.5, 0.5), (0.5, 0.5), (0.6, 0.6), (9.0, 9.0)], random.Random(1)))
    assert [one.latencies_s for one in batches] == [[2.0], [1.5, 1.5], [pytest.approx(2.4)], [1.0]]


def test_batches_of_one_size_say_nothing() -> None:
    """A line through one point is no line."""
    with pytest.raises(Refused, match="one size"):
        fit([(10, 0.001), (10, 0.002)], 100)
