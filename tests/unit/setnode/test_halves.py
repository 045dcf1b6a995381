"""Great crowds at one envelope: half of them in a transaction, told while the next is on its way, in their order."""

import asyncio
from types import SimpleNamespace

import pytest

from envelope.errors import InvariantBroken, Unavailable
from setnode.actors import actor as actor_module
from setnode.actors.request import Ask
from setnode.actors.stage import Phase
from setnode.commit.claims import ClaimLane
from setnode.commit.store import Written
from tests.unit.setnode.test_actor import Stage

CROWD = 8


@pytest.fixture(autouse=True)
def small_crowds(monkeypatch):
    """Eight are a great crowd."""
    monkeypatch.setattr(actor_module, "HALVES_FROM", CROWD)


@pytest.fixture
def stage() -> Stage:
    return Stage(total_fen=2_000, count=20)


def crowd(stage: Stage, first: int, last: int) -> list[int]:
    return [stage.ask(f"u{number}") for number in range(first, last)]


def commit(stage: Stage) -> bool:
    """One transaction of what is ready, as the claim lane does it; returns whether anybody is owed an answer."""
    assert stage.write(stage.collect())
    return stage.actor.settle(owe=True)


def told(stage: Stage) -> list[int]:
    return [number for number, _ in stage.replies]


def test_half_of_a_great_crowd_makes_a_batch(stage):
    """Four of eight, three of seven would be too many commits: all seven."""
    crowd(stage, 0, CROWD)
    assert len(stage.collect()) == CROWD // 2
    other = Stage(total_fen=2_000, count=20)
    crowd(other, 0, CROWD - 1)
    assert len(other.collect()) == CROWD - 1


def test_a_small_crowd_is_told_at_once(stage):
    """Three with a fourth behind them: the next commit is not worth waiting for."""
    numbers = crowd(stage, 0, 4)
    assert stage.write(stage.collect(limit=3))
    assert not stage.actor.settle(owe=True)
    assert told(stage) == numbers[:3]


def test_they_are_told_once_the_next_half_is_on_its_way(stage):
    """Durable, but silent until then; a second tap by one of them hears already_opened, after the first answer."""
    numbers = crowd(stage, 0, CROWD)
    assert commit(stage)
    assert (stage.actor.phase, told(stage)) == (Phase.READY, [])
    numbers.append(stage.ask("u0"))
    batch = stage.collect(limit=100)
    assert (len(batch), stage.actor.phase, told(stage)) == (CROWD // 2, Phase.WRITING, [])
    stage.actor.tell_owed()
    assert told(stage) == numbers[: CROWD // 2]
    assert stage.write(batch)
    assert not stage.actor.settle(owe=True)
    assert told(stage) == numbers
    assert stage.heard(numbers[-1]) == "already_opened"


def test_halves_stay_halves_while_everybody_comes_back(stage):
    """Those owed an answer count as the other half: batches do not shrink from one to the next."""
    crowd(stage, 0, CROWD)
    batch = stage.collect()
    sizes = [len(batch)]
    for came in range(CROWD, 2 * CROWD, CROWD // 2):
        assert stage.write(batch)
        assert stage.actor.settle(owe=True)
        batch = stage.collect()
        sizes.append(len(batch))
        stage.actor.tell_owed()
        crowd(stage, came, came + CROWD // 2)
    assert sizes == [CROWD // 2] * 3


def test_the_end_of_a_crowd_is_told_at_once(stage):
    """However many they are: with nobody behind them no other transaction is sent, and nothing would tell them."""
    numbers = crowd(stage, 0, 2 * CROWD)
    assert commit(stage)
    batch = stage.collect()
    stage.actor.tell_owed()
    assert stage.write(batch)
    assert not stage.actor.settle(owe=True)
    assert (told(stage), stage.actor.phase) == (numbers, Phase.IDLE)


def test_who_is_to_be_shown_the_envelope_is_not_put_off(stage):
    """A detail shows what this commit left, not what the next one has decided; those after it are owed."""
    before = crowd(stage, 0, 2)
    detail = stage.ask("u0", Ask.DETAIL)
    after = [*crowd(stage, 2, 3), stage.ask("u9", Ask.GRAB)]
    crowd(stage, CROWD, CROWD + CROWD)
    assert stage.write(stage.collect(limit=5))
    assert stage.actor.settle(owe=True)
    assert told(stage) == [*before, detail]
    assert stage.heard(detail)["claimed_count"] == len(before) + 1
    stage.collect()
    stage.actor.tell_owed()
    assert told(stage) == [*before, detail, *after]


@pytest.mark.parametrize("what", ["sold out", "frozen", "conflict", "lost", "refused"])
def test_whatever_happens_next_they_are_told_first(stage, what):
    """The next transaction needs no write, breaks, is refused, lost or never sent: the durable half is told before."""
    stage = Stage(total_fen=400, count=CROWD // 2) if what == "sold out" else stage
    numbers = crowd(stage, 0, CROWD)
    assert commit(stage)
    if what == "sold out":
        assert len(stage.collect()) == 0
    elif what == "frozen":
        stage.actor.freeze(InvariantBroken("test", "not what it should be"))
    elif what == "refused":
        stage.ready.pop().turn_away(Unavailable("busy", "no entry"))
    else:
        stage.collect()
        stage.actor.reload(in_doubt=what == "lost")
    half, rest = numbers[: CROWD // 2], numbers[CROWD // 2 :]
    assert told(stage)[: CROWD // 2] == half
    assert [stage.heard(number) for number in half] == ["opened"] * len(half)
    if what in ("conflict", "lost"):
        stage.load()
        assert not commit(stage)
    says = {"sold out": "sold_out", "frozen": "invariant_broken", "refused": "busy"}.get(what, "opened")
    assert told(stage) == numbers
    assert [stage.heard(number) for number in rest] == [says] * len(rest)


async def test_the_lane_sends_the_next_half_before_it_tells_the_first(stage):
    """Settled, nobody has heard; the next half can be gathered at once; a turn of the loop later the first heard."""
    heard = []
    lane = ClaimLane(SimpleNamespace(now_ms=stage.now_ms), "s", lambda *committed: heard.append(committed))
    stage.time = asyncio.get_running_loop().time()
    numbers = crowd(stage, 0, CROWD)
    stage.want_commit = lane.want
    lane.want(stage.actor)
    first = lane.gather(set())
    assert len(first) == CROWD // 2
    lane.done(first, Written(1))
    assert (told(stage), len(heard)) == ([], 1)
    second = lane.gather(set())
    assert len(second) == CROWD // 2
    await asyncio.sleep(0)
    assert told(stage) == numbers[: CROWD // 2]
    lane.done(second, Written(2))
    assert told(stage) == numbers
