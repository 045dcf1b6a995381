"""A tool that sleeps while Postgres ends its sessions destroys nothing and switches nothing any more."""

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from errors import Refused, Unavailable
from moving import auxiliary, by_time, cutover, leaves, live, lock
from moving.context import MoveContext
from moving.journal import Journal, move_lock, open_move, target_lock
from moving.moves import abort, move_by_time, move_live
from moving.route import new_route
from sharding.slots import database_name
from sharding.topology.changes import hold
from tests.integration.moving.fixtures import Land, Traffic, land
from tests.integration.moving.move_and_die import DIED

__all__ = ["land"]
pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]
PATIENCE_S = 60.0
SESSIONS = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE application_name = 'hongbao:move' AND datname = current_database()"""
GONE = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'hongbao:move' AND datname = current_database()"


class Sleeper:
    """A tool that falls asleep where `place.name` is called for the nth time, and wakes when it is told to."""

    def __init__(self, patch: pytest.MonkeyPatch, place: Any, name: str, *, nth: int = 1) -> None:
        self._asleep, self._awake, self._task = (
            asyncio.Event(),
            asyncio.Event(),
            asyncio.ensure_future(asyncio.sleep(0)),
        )
        original = getattr(place, name)
        calls = itertools.count(1)

        async def sleeps(*args: Any, **more: Any) -> Any:
            if next(calls) == nth:
                self._asleep.set()
                await self._awake.wait()
            return await original(*args, **more)

        patch.setattr(place, name, sleeps)

    async def begin(self, work: Coroutine[Any, Any, Any]) -> None:
        """Let it work until it sleeps."""
        self._task = asyncio.ensure_future(work)
        waiting = asyncio.ensure_future(self._asleep.wait())
        await asyncio.wait({self._task, waiting}, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        assert self._asleep.is_set(), self._task
        assert not self._task.done()

    async def wake(self) -> BaseException:
        """Wake it; returns the error that it ends with."""
        self._awake.set()
        async with asyncio.timeout(PATIENCE_S):
            (ended,) = await asyncio.gather(self._task, return_exceptions=True)
        assert isinstance(ended, BaseException), ended
        return ended


async def end_sessions(land: Land, *set_names: str) -> None:
    """These SETs fail over: the sessions of all tools there are gone, and their locks with them."""
    for name in set_names:
        await land.on(name, SESSIONS)
        async with asyncio.timeout(PATIENCE_S):
            while (await land.on(name, GONE))[0][0]:
                await asyncio.sleep(0.01)


async def rows(land: Land, table: str, slots: Sequence[int]) -> list[int]:
    """How many rows of the database are on each SET."""
    where = "envelope_id % 1000 = ANY($1::bigint[])" if table == "due" else "slot = ANY($1::smallint[])"
    query = f"SELECT count(*) FROM {table} WHERE {where}"
    return [(await land.on(name, query, list(slots)))[0][0] for name in ("set-1", "set-2")]


async def play(traffic: Traffic, answers: int = 40) -> None:
    async with traffic.busy(senders=2, people=4):
        await traffic.more(answers)
    assert traffic.failures == []


@pytest.mark.parametrize(
    "lost", [pytest.param(["set-1"], marks=pytest.mark.long), ["set-1", "set-2"]], ids=["the source", "both"]
)
@pytest.mark.parametrize("what", ["abort", "move"])
async def test_it_destroys_nothing_of_a_database_that_has_moved(
    land: Land, monkeypatch: pytest.MonkeyPatch, what: str, lost: list[str]
) -> None:
    """Asleep before it drops the copies of an abort, or deletes those of an earlier try.

    While its session at the target lives no other tool goes on; once that is gone, too, another moves the database, and
    the sleeper finds that it can do nothing.
    """
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    await play(traffic)
    if what == "abort":
        assert (await land.tool("live", name, "set-2", "made"))[0] == DIED
        sleeper = Sleeper(monkeypatch, leaves, "drop")
        await sleeper.begin(abort(land.context(), name))
    else:
        sleeper = Sleeper(monkeypatch, live, "delete_copies")
        await sleeper.begin(move_live(land.context(), name, "set-2"))
    await end_sessions(land, *lost)
    if len(lost) == 1:
        with pytest.raises(Refused, match=r"is being moved by another process, which has session \d+ of set-2"):
            await move_live(land.context(), name, "set-2")
        await sleeper.wake()
    assert (await move_live(land.context(), name, "set-2")).complete
    await play(traffic)
    before = [await rows(land, table, traffic.slots) for table in ("claim", "envelope", "due")]
    assert all(there and not here for here, there in before), before
    if len(lost) == 2:
        await sleeper.wake()
    assert [await rows(land, table, traffic.slots) for table in ("claim", "envelope", "due")] == before
    await play(traffic)
    await traffic.all_stands()
    report = await land.settled()
    assert report.holds, Counter(one.check for one in report.violations)


async def test_it_does_not_switch_by_time_what_another_has_undone(land: Land, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rotation has begun with a day since, so another tool lifts the fence: the day stays where its rows are."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    await land.tables(ahead_days=3)
    day = land.today
    await play(traffic)
    assert (await move_by_time(land.context(), name, "set-2")).step == "given_up"
    land.at(day + timedelta(days=8))
    await land.tables(ahead_days=2)
    sleeper = Sleeper(monkeypatch, by_time.ByTime, "_switch")
    await sleeper.begin(_until_final(land, name))
    await end_sessions(land, "set-1", "set-2")
    await land.register("set-1", day, xx, "exported")
    # Whether there is something left to take over is not the question here.
    with contextlib.suppress(Refused):
        await move_by_time(land.context(), name, None)
    topology = land.topology
    woken = await sleeper.wake()
    assert land.topology == topology
    assert land.topology.set_for_database(xx, day).name == "set-1"
    assert isinstance(woken, Unavailable), woken
    assert woken.code == "move_lock_lost"
    (here, _) = await rows(land, "envelope", traffic.slots)
    assert here > 0


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("hold", marks=pytest.mark.long),
        "switch",
        pytest.param("announce", marks=pytest.mark.long),
        "take back",
    ],
)
async def test_it_changes_no_topology_without_its_locks(
    land: Land, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Another tool could have gone on: each change but its own release is proven first. Run again, it is completed."""
    xx = land.database()
    name, context = database_name(xx), land.context()
    monkeypatch.setattr(live, "CUTOVER_S", PATIENCE_S)
    works: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
        "hold": lambda: move_live(context, name, "set-2"),
        "switch": lambda: move_live(context, name, "set-2"),
        "announce": lambda: move_by_time(context, name, "set-2"),
        "take back": lambda: abort(context, name),
    }
    if change == "take back":
        await move_by_time(context, name, "set-2")
    before = land.topology
    sleeper = Sleeper(monkeypatch, MoveContext, "change", nth=2 if change == "switch" else 1)
    await sleeper.begin(works[change]())
    await end_sessions(land, "set-1", "set-2")
    woken = await sleeper.wake()
    assert isinstance(woken, Unavailable), woken
    assert woken.code == "move_lock_lost"
    after = land.topology
    assert (after.pins, after.moves, after.held) == (before.pins, before.moves, ())
    ended = await works[change]()
    assert ended.step == {"announce": "given_up", "take back": "aborted"}.get(change, "done")


async def _until_final(land: Land, name: str) -> None:
    """Take old days over once they are over."""
    while True:
        await land.nodes["set-1"].expiry.run_round()
        try:
            await move_by_time(land.context(), name, None)
        except Refused as error:
            if error.code != "days_not_final":
                raise
            await asyncio.sleep(0.05)
        else:
            return


async def test_it_lifts_no_fence_of_another_cutover(land: Land) -> None:
    """Neither fence nor hold: the token of the journal is another's, on whatever connection it comes."""
    xx = land.database()
    name, context = database_name(xx), land.context()
    assert (await land.tool("live", name, "set-2", "fenced"))[0] == DIED
    entry = await open_move(context, xx)
    assert entry is not None
    route, slept = entry.route, await _taken_over(land, entry)
    await _taken_over(land, entry)
    with pytest.raises(Unavailable) as refused:
        await cutover.release_traffic(context, slept)
    assert refused.value.code == "move_lock_lost"
    assert name in land.topology.held
    assert await land.on("set-1", "SELECT FROM pg_trigger WHERE tgname = 'moved_away'") != []
    assert (await abort(context, name)).step == "aborted"
    assert not land.topology.held
    assert new_route(land.topology, xx, "set-2") == route


async def _taken_over(land: Land, entry: Any) -> Journal:
    """The journal of a tool that has gone on with the move, and whose sessions are gone."""
    async with move_lock(land.context(), entry.route) as source:
        return await Journal.take_over(land.context(), source, entry)


async def test_a_connection_without_the_lock_destroys_nothing(land: Land) -> None:
    """Whoever calls it: drops and deletes look for the lock in their own transaction."""
    xx = land.database()
    context, route = land.context(), new_route(land.topology, xx, "set-2")
    taken = leaves.leaves_of(xx, [land.today])
    async with context.connect("set-1") as stranger:
        destroyers: list[Callable[[], Awaitable[None]]] = [
            lambda: leaves.drop(stranger, taken),
            lambda: auxiliary.delete_copies(stranger, route.slots),
            lambda: auxiliary.delete_moved(stranger, route.slots),
        ]
        for destroy in destroyers:
            with pytest.raises(Unavailable) as refused:
                await destroy()
            assert refused.value.code == "move_lock_lost"
        async with move_lock(context, route), target_lock(context, route):
            with pytest.raises(Unavailable):
                await leaves.drop(stranger, taken)
        assert await leaves.hot_days(stranger, xx) == [land.today]


async def test_a_topology_that_another_has_published_meanwhile_is_proven_anew(land: Land) -> None:
    """A change that was decided on an older version is decided, and proven, once more."""
    xx, versions = land.database(), []

    async def proof() -> None:
        versions.append(land.topology.version)
        if len(versions) == 1:
            await land.context().settled()

    new = await land.context().change(lambda old: hold(old, xx), proof)
    assert versions == [1, 2]
    assert (new.version, new.held) == (3, (database_name(xx),))


async def test_a_proof_that_fails_leaves_no_statement_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other session is used at once, to release the traffic: nothing may be under way on it."""
    ended: list[str] = []

    async def prove(connection: str, _: int) -> None:
        if connection == "target":
            raise lock.lost(7)
        await asyncio.sleep(0.05)
        ended.append(connection)

    monkeypatch.setattr(lock, "prove", prove)
    journal: Any = object.__new__(Journal)
    journal.entry, journal._connection = SimpleNamespace(route=SimpleNamespace(xx=7)), "source"
    with pytest.raises(Unavailable, match="move_lock_lost"):
        await journal.prove("target")
    assert ended == ["source"]
