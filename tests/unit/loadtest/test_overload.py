"""The figures of an overload: what they are made of."""

from typing import Any

from loadtest.overload.crowd import Played, Seen
from loadtest.overload.figures import Step, refusal_us, settle_s


def seen(**given: Any) -> Seen:
    base: dict[str, Any] = {
        "seconds": 2.0, "rate": 100.0, "offered": 200, "repeated": 0, "useful": 200, "gave_up": 0, "no_connection": 0,
        "broken": 0, "skipped": 0, "late": 0, "max_late_ms": 1.0, "connections": 10, "answers": {}, "p50_ms": 5.0,
        "p99_ms": 20.0, "refused_p50_ms": 0.0, "refused_p99_ms": 0.0, "longest_ms": 30.0,
    }  # fmt: skip
    return Seen(**(base | given))


def test_what_people_waited_for_nothing() -> None:
    """Those who gave up, found no connection or lost it, of all that was asked; who heard busy is none of them."""
    one = seen(offered=80, repeated=20, useful=50, gave_up=5, no_connection=3, broken=2, answers={"busy": 40})
    assert one.for_nothing == 0.1
    assert one.refused == 40
    assert one.useful_per_s == 25.0


def test_the_price_of_a_refusal() -> None:
    """What the busy step used beyond its useful answers, at the price of those of a calm one."""
    calm = Step(times=0.5, seen=seen(useful=1_000), gateways_s=0.050)
    busy = Step(times=1.5, seen=seen(useful=2_000, answers={"busy": 1_000}), gateways_s=0.110)
    assert round(refusal_us(calm, busy), 6) == 10.0
    assert refusal_us(calm, Step(times=1.5, seen=seen(), gateways_s=0.1)) == 0.0


def stormy(p99_ms: list[float], refused: list[int]) -> Played:
    """Two slots of half load, two of a storm, then calm."""
    phases = [seen(seconds=0.2), seen(seconds=0.2), seen(seconds=1.0)]
    zero = [0] * len(p99_ms)
    return Played(
        phases=phases, sent=1, slot_s=0.1, useful=zero, refused=refused, gave_up=zero, p99_ms=p99_ms
    )  # fmt: skip


def test_when_it_has_settled() -> None:
    """From the first of five slots in a row in which nobody is refused and p99 is that of half load."""
    calm, busy = [20.0] * 2, [300.0] * 2
    assert settle_s(stormy([*calm, *busy, *[20.0] * 10], [0] * 14), seen()) == 0.0
    after = [200.0, 200.0, 30.0, 200.0, *[30.0] * 6]
    assert settle_s(stormy([*calm, *busy, *after], [0] * 14), seen()) == 0.4
    assert settle_s(stormy([*calm, *busy, *[20.0] * 10], [0] * 4 + [1] * 3 + [0] * 7), seen()) == 0.3
    assert settle_s(stormy([*calm, *busy, *[200.0] * 10], [0] * 14), seen()) == 1.0
