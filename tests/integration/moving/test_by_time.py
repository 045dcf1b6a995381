"""A database that moves from a date on: no request fails, no row is lost, the books are clean at every point."""

import asyncio
import contextlib
from datetime import timedelta

import pytest

from client import Detail, Envelope
from errors import HongbaoError, InvariantBroken, Refused
from moving import by_time, compare, lock
from moving.journal import move_lock, open_move
from moving.leaves import drop, hot_days, leaves_of
from moving.moves import move_by_time
from moving.route import Route
from sharding.ids import day_of, make_id
from sharding.slots import database_name
from sharding.topology import change
from sharding.topology.changes import hold
from tests.integration.moving.checks import as_it_was, rows_of, until_final
from tests.integration.moving.fixtures import Land, Traffic, land
from tests.integration.moving.move_and_die import DIED, REFUSED

__all__ = ["land"]
pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]


async def test_nobody_notices_a_move_by_time(land: Land) -> None:
    """Creates, opens and details go on through announcement, midnight, expiry, copy and switch: none fails."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    async with traffic.busy():
        await traffic.more(200)
        begun = await move_by_time(land.context(), name, "set-2")
        tomorrow = land.today + timedelta(days=1)
        assert (begun.step, begun.valid_from, begun.complete) == ("given_up", tomorrow, False)
        async with land.context().connect("set-1") as source:
            assert await hot_days(source, xx) == [land.today], "who has not heard cannot write there either"
        await traffic.more(200)
        land.at(land.today, hour=23, minute=59, second=58)
        await traffic.more(100)
        land.at(tomorrow)
        await land.tables()
        await traffic.more(300)
        days = {day_of(int(one.envelope_id)) for one in traffic.envelopes}
        assert days == {tomorrow, tomorrow - timedelta(days=1)}
        old = [one for one in traffic.envelopes if day_of(int(one.envelope_id)) < tomorrow][::7]
        with pytest.raises(Refused, match="is still open"):
            await move_by_time(land.context(), name, None)
        assert traffic.failures == []
        land.at(tomorrow + timedelta(days=1), hour=1)
        await land.tables()
        await traffic.more(100)
        before = await _expired(traffic, old)
        done = await until_final(land, name)
        assert (done.step, done.complete, done.left) == ("done", True, [])
        assert done.figures["claims"] > 100
        await traffic.more(200)
        assert [await traffic.detail(one) for one in old] == before
    assert traffic.failures == []
    await traffic.all_stands()
    assert traffic.failures == []
    report = await land.settled()
    assert report.holds, report.violations
    assert report.sums.envelopes == len(traffic.envelopes)
    assert await rows_of(land, "set-1", xx) == 0
    assert land.topology.moves == {}
    assert land.topology.pins[name] == "set-2"
    assert await open_move(land.context(), xx) is None


async def _expired(traffic: Traffic, old: list[Envelope]) -> list[Detail]:
    """The last word on these: an envelope of yesterday reads as expired before the sweep has given its rest back."""
    last = []
    async with asyncio.timeout(60):
        for one in old:
            while True:
                detail = await traffic.detail(one)
                assert detail is not None, traffic.failures
                if detail.status != "expired" or detail.closed_at is not None:
                    break
                await asyncio.sleep(0.05)
            last.append(detail)
    return last


@pytest.mark.long
async def test_killed_at_every_point_it_finishes(land: Land) -> None:
    """Kill -9 around the journal's line of every step: each next try goes on; at the end all is there, once."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    points = [point for step in by_time.STEPS for point in ((f"{step}?", step) if step != "planned" else (step,))]
    async with traffic.busy():
        await traffic.more(150)
        for point in points[: points.index("given_up") + 1]:
            status, said = await land.tool("by_time", name, "set-2", point)
            assert (status, said) == (DIED, ""), point
            report = await land.audit()
            assert report.holds, (point, report.violations)
        land.at(land.today + timedelta(days=1), minute=5)
        await land.tables()
        await traffic.more(150)
        land.at(land.today + timedelta(days=1), hour=1)
        await land.tables()
        await traffic.more(50)
        for point in points[points.index("given_up") + 1 :]:
            async with asyncio.timeout(60):
                while (died := await land.tool("by_time", name, "set-2", point))[0] == REFUSED:
                    assert "days_not_final" in died[1]
            assert died == (DIED, ""), point
            report = await land.audit()
            assert report.holds, (point, report.violations)
        await traffic.more(50)
    assert await land.tool("by_time", name, "set-2") == (REFUSED, f"already_there: {name} is on set-2 already\n")
    assert traffic.failures == []
    await traffic.all_stands()
    report = await land.settled()
    assert report.holds, report.violations
    assert report.sums.envelopes == len(traffic.envelopes)
    assert await rows_of(land, "set-1", xx) == 0


_WAITING = "SELECT (SELECT count(*) FROM due) + (SELECT count(*) FROM payout_batch) AS n"


async def _over(land: Land, traffic: Traffic, name: str) -> None:
    """Some envelopes, a move begun, and the days before it over and paid."""
    async with traffic.busy():
        await traffic.more(100)
    await move_by_time(land.context(), name, "set-2")
    land.at(land.today + timedelta(days=2), hour=1)
    await land.tables()
    async with asyncio.timeout(30):
        while (await land.on("set-1", _WAITING))[0]["n"]:
            await asyncio.sleep(0.1)


async def test_a_copy_that_differs_is_thrown_away(land: Land, monkeypatch: pytest.MonkeyPatch) -> None:
    """One fen more in one row there: nothing switches, the copy is gone, the fence is down, and a new try succeeds."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    await _over(land, traffic, name)
    before, rows = as_it_was(land.topology), await rows_of(land, "set-1", xx)

    async def spoiled(source, target, taken):
        for leaf in taken:
            if await target.fetchval(f"SELECT count(*) FROM {leaf.name}") and leaf.kind == "claim":
                one = f"(SELECT min(ctid) FROM {leaf.name})"
                await target.execute(f"UPDATE {leaf.name} SET amount_fen = amount_fen + 1 WHERE ctid = {one}")
                break
        return await compare.compare(source, target, taken)

    with monkeypatch.context() as patch:
        patch.setattr(by_time, "compare", spoiled)
        with pytest.raises(InvariantBroken, match="copies_are_equal"):
            await move_by_time(land.context(), name, None)
    assert as_it_was(land.topology) == before
    assert await rows_of(land, "set-1", xx) == rows
    assert await rows_of(land, "set-2", xx) == 0
    fences = await land.on("set-1", "SELECT count(*) AS n FROM pg_trigger WHERE tgname = 'moved_away'")
    assert fences[0]["n"] == 0
    assert (await until_final(land, name)).complete
    assert await rows_of(land, "set-2", xx) == rows
    assert (await land.settled()).holds


@pytest.mark.parametrize("how", ["a row differs", "the day is gone"])
async def test_old_copies_stay_if_the_target_has_others_by_then(land: Land, how: str) -> None:
    """Stopped after the switch for days, in which the new SET was restored: the only good copy is not dropped."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    await _over(land, traffic, name)
    rows = await rows_of(land, "set-1", xx)
    assert await until_final(land, name, tool="switched") is None
    async with land.context().connect("set-1") as source, land.context().connect("set-2") as target:
        old = leaves_of(xx, await hot_days(source, xx))
        if how == "the day is gone":
            await lock.take(target, xx, "set-2")
            await drop(target, old)
        else:
            for leaf in old:
                if leaf.kind == "claim" and await source.fetchval(f"SELECT count(*) FROM {leaf.name}"):
                    one = f"(SELECT min(ctid) FROM {leaf.name})"
                    await land.on("set-2", f"UPDATE {leaf.name} SET amount_fen = amount_fen + 1 WHERE ctid = {one}")
    with pytest.raises(InvariantBroken, match="copies_are_equal"):
        await move_by_time(land.context(), name, None)
    assert await rows_of(land, "set-1", xx) == rows


async def test_days_that_rotation_has_begun_with_stay_until_they_are_archived(land: Land) -> None:
    """What is detached or exported stays on the old SET, the younger days move; once it is dropped the rest follows."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    first = land.today
    async with traffic.busy():
        await traffic.more(60)
    land.at(first + timedelta(days=1), hour=12)
    await land.tables()
    async with traffic.busy():
        await traffic.more(60)
    await move_by_time(land.context(), name, "set-2")
    land.at(first + timedelta(days=3), hour=1)
    await land.tables()
    await land.register("set-1", first, xx, "verified")
    done = await until_final(land, name)
    assert (done.complete, done.left) == (False, [first])
    topology = land.topology
    assert topology.set_for(make_id(first, 1, xx * 10)).name == "set-1"
    assert topology.set_for(make_id(first + timedelta(days=1), 1, xx * 10)).name == "set-2"
    await traffic.all_stands()
    assert traffic.failures == []
    async with land.context().connect("set-1") as source:
        with pytest.raises(Refused, match="days_being_rotated"):
            await by_time.days_to_take(land.context(), source, Route(xx, "set-1", "set-2"), first + timedelta(days=1))
    # Its rows go with it, as rotation would have taken them.
    await land.register("set-1", first, xx, "dropped")
    for leaf in by_time.leaves_of(xx, [first]):
        await land.on("set-1", f"DROP TABLE {leaf.name}")
    done = await until_final(land, name)
    assert done.complete
    copied = await land.on("set-2", "SELECT day, state FROM day_register WHERE xx = $1", xx)
    assert [tuple(row) for row in copied] == [(first, "dropped")]


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("an unknown database", "unknown_database"),
        ("a database with a strange name", "unknown_database"),
        ("an unknown SET", "unknown_set"),
        ("where it is", "already_there"),
        ("today", "date_past"),
        ("too soon", "date_too_soon"),
        ("a written date", "date_written"),
        ("nothing to finish", "no_move"),
        ("held", "other_move"),
        ("two tools at once", "move_running"),
        ("a topology with a hole", "topology_invalid"),
    ],
)
async def test_bad_input_changes_nothing(land: Land, what: str, code: str) -> None:
    """Each mistake has its code and a sentence, and neither topology nor journal nor tables are touched."""
    xx = land.database()
    asked = {"database": database_name(xx), "to": "set-2", "valid_from": None} | MISTAKES.get(what, {})
    if what == "today":
        asked["valid_from"] = land.today
    elif what == "too soon":
        land.at(land.today, hour=23, minute=59, second=30)
        asked["valid_from"] = land.today + timedelta(days=1)
    elif what == "a written date":
        asked["valid_from"] = land.today + timedelta(days=1)
        land.clock.advance(days=1)
        await land.tables()
        async with Traffic(land, xx).busy() as ahead:
            await ahead.more(30)
        land.clock.advance(days=-1)
    elif what == "held":
        change(land.path, lambda old: hold(old, xx))
    elif what == "a topology with a hole":
        land.path.write_text(land.path.read_text().replace('"pins": {}', '"pins": {"db_00": "set-9"}'))
    before, tables = land.path.read_bytes(), await land.on("set-2", "SELECT count(*) AS n FROM pg_class")
    async with contextlib.AsyncExitStack() as stack:
        if what == "two tools at once":
            await stack.enter_async_context(by_time_lock(land, xx))
        with pytest.raises(HongbaoError) as refused:
            await move_by_time(land.context(), **asked)
    assert refused.value.code == code
    assert len(refused.value.detail) > 20
    assert land.path.read_bytes() == before
    assert await land.on("set-2", "SELECT count(*) AS n FROM pg_class") == tables
    for one in land.dsns:
        assert await land.on(one, "SELECT * FROM move") == []


MISTAKES = {
    "an unknown database": {"database": "db_10"},
    "a database with a strange name": {"database": "db_07; DROP TABLE claim"},
    "an unknown SET": {"to": "set-9"},
    "where it is": {"to": "set-1"},
    "nothing to finish": {"to": None},
}


def by_time_lock(land: Land, xx: int):
    return move_lock(land.context(), Route(xx, "set-1", "set-2"))


async def test_another_move_of_the_same_database_waits(land: Land) -> None:
    """While one is open, another target, another date or another way is refused, and the open one goes on."""
    xx = land.database()
    name = database_name(xx)
    await move_by_time(land.context(), name, "set-2")
    before = as_it_was(land.topology)
    for to, day in (("set-1", None), ("set-2", land.today + timedelta(days=9))):
        with pytest.raises(Refused) as refused:
            await move_by_time(land.context(), name, to, day)
        assert refused.value.code == "other_move"
    with pytest.raises(Refused) as early:
        await move_by_time(land.context(), name, "set-2")
    assert early.value.code == "days_not_past"
    assert as_it_was(land.topology) == before


async def test_a_move_that_was_never_announced_in_time_is_undone(land: Land) -> None:
    """Killed before the announcement and found again when its date has come: it is over, and a new one may begin."""
    xx = land.database()
    name = database_name(xx)
    assert (await land.tool("by_time", name, "set-2", "tables"))[0] == DIED
    land.at(land.today + timedelta(days=1), hour=1)
    with pytest.raises(Refused) as refused:
        await move_by_time(land.context(), name, "set-2")
    assert refused.value.code == "date_too_soon"
    assert land.topology.moves == {}
    assert await land.on("set-2", f"SELECT FROM pg_class WHERE relnamespace = to_regnamespace('{name}')::oid") == []
    await land.tables()
    assert (await move_by_time(land.context(), name, "set-2")).step == "given_up"
