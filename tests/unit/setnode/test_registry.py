"""The registry: memory bounded by shares, and nobody who is busy is put to sleep."""

import math
from datetime import UTC, datetime

from envelope.claim_log import ClaimLog
from errors import InvariantBroken, Unavailable
from setnode.actors.actor import Actor
from setnode.actors.phase import Phase
from setnode.actors.registry import Registry
from setnode.actors.request import Action, LocalCaller, Request
from setnode.limits import ENVELOPE_WEIGHT
from tests.clock import ManualClock
from tests.unit.envelope.test_ladder import OPENS, terms

FIRST = 2611210000000001007


def build(live_shares: int) -> tuple[Registry, list[Actor], list[Actor]]:
    ready, loading = [], []
    clock = ManualClock(datetime.fromtimestamp(OPENS / 1000, UTC))
    registry = Registry(
        clock,
        loop_time=lambda: 0.0,
        enqueue_commit=ready.append,
        note_hot=lambda _: None,
        enqueue_load=loading.append,
        live_shares=live_shares,
    )
    return registry, ready, loading


def log_of(number: int, count: int = 20) -> ClaimLog:
    return ClaimLog(terms(envelope_id=FIRST + number * 1000, count=count, total_fen=max(100, count)))


def ask(registry: Registry, number: int, ask_: Action = Action.OPEN) -> None:
    request = Request(ask_, "u", token_ok=True, password_mac=None, caller=LocalCaller(), number=1, arrived_at=0.0)
    registry.offer(FIRST + number * 1000, request)


def test_idle_envelopes_are_put_to_sleep_above_the_bound():
    """However many arrive, the weight stays at the bound (one lap of the hand may be needed first)."""
    weight = 20 + ENVELOPE_WEIGHT
    registry, _, _ = build(live_shares=10 * weight)
    for number in range(200):
        registry.adopt(log_of(number))
    assert registry.weight <= 11 * weight
    assert registry.weight == len(registry) * weight


def test_a_busy_actor_is_never_put_to_sleep():
    """Loading, ready and writing actors stay whatever the weight; the idle ones make room."""
    registry, ready, loading = build(live_shares=100)
    ask(registry, 0)
    registry.adopt(log_of(1))
    ask(registry, 1)
    for number in range(10, 60):
        registry.adopt(log_of(number))
    busy = [*loading, *ready]
    assert [actor.phase for actor in busy] == [Phase.LOADING, Phase.READY]
    for actor in busy:
        assert registry._actors[actor.envelope_id] is actor


def test_an_envelope_read_from_the_database_weighs_what_it_holds():
    """Loading 10,000 shares counts 10,000 shares, and sends others to sleep."""
    registry, _, loading = build(live_shares=11_000)
    for number in range(30):
        registry.adopt(log_of(number))
    ask(registry, 100)
    assert registry.weight == 31 * 30
    loading[0].loaded(log_of(100, count=10_000), math.inf)
    assert registry.weight == 30 * 30 + 10_000 + ENVELOPE_WEIGHT
    for number in range(101, 131):
        ask(registry, number)
        loading[-1].loaded(log_of(number, count=10_000), math.inf)
        loading[-1].reject_waiting(None)
    assert registry.weight <= 8 * 10_010


def test_one_request_wakes_an_envelope_once():
    """However many ask while it loads, the loader hears of it once."""
    registry, _, loading = build(live_shares=1_000)
    for _ in range(50):
        ask(registry, 0)
    assert len(loading) == 1
    assert registry.waiting == 50


def test_those_who_wait_are_counted_over_all_envelopes():
    """The count follows arrivals, refusals and envelopes that nobody knows, without a look at every actor."""
    registry, ready, loading = build(live_shares=100_000)
    for number in range(3):
        registry.adopt(log_of(number))
        for _ in range(number + 1):
            ask(registry, number)
    ask(registry, 7)
    ask(registry, 7, Action.DETAIL)
    assert registry.waiting == 1 + 2 + 3 + 2 == sum(actor.waiting for actor in registry.actors())
    ready[2].reject_waiting(Unavailable("busy", "no lease"))
    assert registry.waiting == 1 + 2 + 2
    loading[0].reply_not_found()
    assert registry.waiting == 1 + 2
    ready[1].freeze(InvariantBroken("test", "not what it should be"))
    ready[0].reject_waiting(Unavailable("busy", "no lease"))
    assert registry.waiting == 0


def test_only_the_actor_itself_is_forgotten():
    """Forgetting an actor that was replaced meanwhile changes nothing."""
    registry, _, loading = build(live_shares=1_000)
    ask(registry, 0)
    registry.forget(loading[0])
    ask(registry, 0)
    registry.forget(loading[0])
    assert len(registry) == 1
    assert registry.weight == 30


def test_who_is_asked_for_stays_and_who_is_not_goes_first():
    """At the bound an envelope that is opened now and then outlives hundreds that came after it and were not."""
    registry, _, loading = build(live_shares=100 * (20 + ENVELOPE_WEIGHT))
    for number in range(100):
        registry.adopt(log_of(number))
    for number in range(100, 1_000):
        ask(registry, 0, Action.GRAB)
        registry.adopt(log_of(number))
    assert not loading, "it was never read again"
    assert FIRST + 1_000 not in registry._actors
    assert registry.weight <= 101 * (20 + ENVELOPE_WEIGHT)


def test_what_is_opened_outlives_a_flood_of_what_nobody_opens():
    """Room for 100: one asked for every 90 arrivals is never read again, for the flood goes at its first lap."""
    registry, _, loading = build(live_shares=100 * (20 + ENVELOPE_WEIGHT))
    registry.adopt(log_of(0))
    for number in range(1, 3_000):
        if number % 90 == 1:
            ask(registry, 0, Action.GRAB)
        registry.adopt(log_of(number))
    assert not loading
    assert FIRST in registry._actors


def test_a_create_that_is_heard_of_late_does_not_show_an_envelope_as_new(monkeypatch):
    """A repeat of it went to another server, which was opened there: its notification came before our own answer."""
    registry, _, _ = build(10_000)
    monkeypatch.setattr("setnode.actors.registry.MISSED", 2)
    for number in range(3):
        registry.invalidate(FIRST + 1_000 * number)
    for number in range(3):
        registry.adopt(log_of(number))
    assert [registry.shows(FIRST + 1_000 * number) for number in range(3)] == [True, False, False]
