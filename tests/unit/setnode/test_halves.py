"""Great crowds at one envelope: half of them in a transaction, told while the next is on its way, in their order."""

import asyncio
from types import SimpleNamespace

import pytest

from errors import InvariantBroken, Unavailable
from setnode.actors import actor as actor_module
from setnode.actors.phase import Phase
from setnode.actors.request import Action
from setnode.commit.claim_queue import ClaimQueue
from setnode.commit.store import Written
from tests.unit.setnode.test_actor import Harness

CROWD = 8


@pytest.fixture(autouse=True)
def small_crowds(monkeypatch):
    """Eight are a great crowd."""
    monkeypatch.setattr(actor_module, "HALVES_FROM", CROWD)


@pytest.fixture
def harness() -> Harness:
    return Harness(total_fen=2_000, count=20)


def crowd(harness: Harness, first: int, last: int) -> list[int]:
    return [harness.ask(f"u{number}") for number in range(first, last)]


def commit(harness: Harness) -> bool:
    """One transaction of what is ready, as the claim queue does it; returns whether replies are deferred."""
    assert harness.write(harness.collect())
    return harness.actor.settle(defer=True)


def told(harness: Harness) -> list[int]:
    return [number for number, _ in harness.replies]


def test_half_of_a_great_crowd_makes_a_batch(harness):
    """Four of eight, three of seven would be too many commits: all seven."""
    crowd(harness, 0, CROWD)
    assert len(harness.collect()) == CROWD // 2
    other = Harness(total_fen=2_000, count=20)
    crowd(other, 0, CROWD - 1)
    assert len(other.collect()) == CROWD - 1


def test_a_small_crowd_is_told_at_once(harness):
    """Three with a fourth behind them: the next commit is not worth waiting for."""
    numbers = crowd(harness, 0, 4)
    assert harness.write(harness.collect(limit=3))
    assert not harness.actor.settle(defer=True)
    assert told(harness) == numbers[:3]


def test_they_are_told_once_the_next_half_is_on_its_way(harness):
    """Durable, but silent until then; a second tap by one of them hears already_opened, after the first answer."""
    numbers = crowd(harness, 0, CROWD)
    assert commit(harness)
    assert (harness.actor.phase, told(harness)) == (Phase.READY, [])
    numbers.append(harness.ask("u0"))
    batch = harness.collect(limit=100)
    assert (len(batch), harness.actor.phase, told(harness)) == (CROWD // 2, Phase.WRITING, [])
    harness.actor.flush_deferred()
    assert told(harness) == numbers[: CROWD // 2]
    assert harness.write(batch)
    assert not harness.actor.settle(defer=True)
    assert told(harness) == numbers
    assert harness.heard(numbers[-1]) == "already_opened"


def test_halves_stay_halves_while_everybody_comes_back(harness):
    """Those owed an answer count as the other half: batches do not shrink from one to the next."""
    crowd(harness, 0, CROWD)
    batch = harness.collect()
    sizes = [len(batch)]
    for came in range(CROWD, 2 * CROWD, CROWD // 2):
        assert harness.write(batch)
        assert harness.actor.settle(defer=True)
        batch = harness.collect()
        sizes.append(len(batch))
        harness.actor.flush_deferred()
        crowd(harness, came, came + CROWD // 2)
    assert sizes == [CROWD // 2] * 3


def test_the_end_of_a_crowd_is_told_at_once(harness):
    """However many they are: with nobody behind them no other transaction is sent, and nothing would tell them."""
    numbers = crowd(harness, 0, 2 * CROWD)
    assert commit(harness)
    batch = harness.collect()
    harness.actor.flush_deferred()
    assert harness.write(batch)
    assert not harness.actor.settle(defer=True)
    assert (told(harness), harness.actor.phase) == (numbers, Phase.IDLE)


def test_who_is_to_be_shown_the_envelope_is_not_deferred(harness):
    """A detail shows what this commit left, not what the next one has decided; those after it are owed."""
    before = crowd(harness, 0, 2)
    detail = harness.ask("u0", Action.DETAIL)
    after = [*crowd(harness, 2, 3), harness.ask("u9", Action.GRAB)]
    crowd(harness, CROWD, CROWD + CROWD)
    assert harness.write(harness.collect(limit=5))
    assert harness.actor.settle(defer=True)
    assert told(harness) == [*before, detail]
    assert harness.heard(detail)["claimed_count"] == len(before) + 1
    harness.collect()
    harness.actor.flush_deferred()
    assert told(harness) == [*before, detail, *after]


@pytest.mark.parametrize("what", ["sold out", "frozen", "conflict", "lost", "refused"])
def test_whatever_happens_next_they_are_told_first(harness, what):
    """The next transaction needs no write, breaks, is refused, lost or never sent: the durable half is told before."""
    harness = Harness(total_fen=400, count=CROWD // 2) if what == "sold out" else harness
    numbers = crowd(harness, 0, CROWD)
    assert commit(harness)
    if what == "sold out":
        assert len(harness.collect()) == 0
    elif what == "frozen":
        harness.actor.freeze(InvariantBroken("test", "not what it should be"))
    elif what == "refused":
        harness.ready.pop().reject_waiting(Unavailable("busy", "no lease"))
    else:
        harness.collect()
        harness.actor.reload(in_doubt=what == "lost")
    half, rest = numbers[: CROWD // 2], numbers[CROWD // 2 :]
    assert told(harness)[: CROWD // 2] == half
    assert [harness.heard(number) for number in half] == ["opened"] * len(half)
    if what in ("conflict", "lost"):
        harness.load()
        assert not commit(harness)
    says = {"sold out": "sold_out", "frozen": "invariant_broken", "refused": "busy"}.get(what, "opened")
    assert told(harness) == numbers
    assert [harness.heard(number) for number in rest] == [says] * len(rest)


async def test_the_lane_sends_the_next_half_before_it_tells_the_first(harness):
    """Settled, nobody has heard; the next half can be gathered at once; a turn of the loop later the first heard."""
    heard = []
    queue = ClaimQueue(SimpleNamespace(now_ms=harness.now_ms), "s", lambda *committed: heard.append(committed))
    harness.time = asyncio.get_running_loop().time()
    numbers = crowd(harness, 0, CROWD)
    harness.enqueue_commit = queue.enqueue
    queue.enqueue(harness.actor)
    first = queue.next_batch(set())
    assert len(first) == CROWD // 2
    queue.on_committed(first, Written(1))
    assert (told(harness), len(heard)) == ([], 1)
    second = queue.next_batch(set())
    assert len(second) == CROWD // 2
    await asyncio.sleep(0)
    assert told(harness) == numbers[: CROWD // 2]
    queue.on_committed(second, Written(2))
    assert told(harness) == numbers
