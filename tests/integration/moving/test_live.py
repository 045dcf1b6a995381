"""A database that moves now, under traffic: nobody is failed or answered twice, and killed anywhere it finishes."""

import asyncio
import itertools
import json
from datetime import timedelta
from typing import Any

import pytest

from errors import InvariantBroken, Refused, Unavailable
from gateway.sets import calls
from moving import leaves, live
from moving.compare import compare
from moving.journal import open_move
from moving.limits import GRACE_S
from moving.moves import abort, move_by_time, move_live
from sharding.slots import database_name
from tests.integration.moving.checks import no_stream, nothing_left
from tests.integration.moving.fixtures import Land, Traffic, land
from tests.integration.moving.move_and_die import DIED

__all__ = ["land"]
pytestmark = [pytest.mark.faults, pytest.mark.timeout(280)]
POINTS = [point for step in live.STEPS for point in ((f"{step}?", step) if step != "planned" else (step,))]


async def test_nobody_notices_a_live_move_but_for_the_stall(land: Land) -> None:
    """Creates, opens and details go on through copy, stall and switch, there and back: none fails, none contradicts."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    async with traffic.busy():
        await traffic.more(400)
        moved = await move_live(land.context(grace_s=GRACE_S), name, "set-2")
        assert moved.complete
        assert moved.figures["stall_s"] < live.CUTOVER_S
        assert moved.figures["claims"] > 100
        await traffic.more(200)
        assert traffic.failures == []
        back = await move_live(land.context(), name, "set-1")
        assert back.complete
        await traffic.more(200)
    assert traffic.failures == []
    await traffic.all_stands()
    assert traffic.failures == []
    report = await land.settled()
    assert report.holds, report.violations
    assert report.sums.envelopes == len(traffic.envelopes)
    assert report.sums.claims == len(traffic.heard)
    await nothing_left(land, "set-2", xx)
    await no_stream(land)


@pytest.mark.long
async def test_killed_at_every_point_it_finishes(land: Land) -> None:
    """Kill -9 around the journal's line of every step: each next try goes on; the books are clean each time."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    async with traffic.busy():
        await traffic.more(100)
    for point in POINTS:
        status, said = await land.tool("live", name, "set-2", point)
        assert (status, said) == (DIED, ""), point
        report = await land.audit()
        assert report.holds, (point, report.violations)
    assert await open_move(land.context(), xx) is None
    assert land.topology.held == ()
    async with traffic.busy():
        await traffic.more(100)
    assert traffic.failures == []
    await traffic.all_stands()
    report = await land.settled()
    assert report.holds, report.violations
    assert report.sums.envelopes == len(traffic.envelopes)
    await nothing_left(land, "set-1", xx)
    await no_stream(land)


@pytest.mark.long
@pytest.mark.parametrize("point", ["held", "fenced", "equal"])
async def test_killed_in_the_stall_everybody_is_told_busy_and_nothing_is_lost(land: Land, point: str) -> None:
    """A tool that dies between hold and switch leaves its database busy and the others served; an abort frees it."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    async with traffic.busy():
        await traffic.more(100)
    assert (await land.tool("live", name, "set-2", point))[0] == DIED
    async with traffic.busy(senders=2, people=2):
        await traffic.more(6)
    assert traffic.failures
    assert all(" 503 " in one and "'busy'" in one for one in traffic.failures), traffic.failures
    other = Traffic(land, land.topology.databases_of("set-1")[1])
    async with other.busy():
        await other.more(100)
    assert other.failures == []
    undone = await abort(land.context(), name)
    assert undone.step == "aborted"
    traffic.failures.clear()
    async with traffic.busy():
        await traffic.more(100)
    assert traffic.failures == []
    await traffic.all_stands()
    assert (await land.settled()).holds
    await nothing_left(land, "set-2", xx)
    await no_stream(land)


async def test_copies_that_differ_undo_the_move(land: Land, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row too few there, found in the stall: all is undone, the traffic goes on, nobody is failed."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)

    async def spoiled(source, target, taken, settled):
        for leaf in taken:
            if leaf.kind == "claim":
                await target.execute(f"DELETE FROM {leaf.name} WHERE ctid = (SELECT min(ctid) FROM {leaf.name})")
        return await compare(source, target, taken, settled)

    async with traffic.busy():
        await traffic.more(200)
        with monkeypatch.context() as patch:
            patch.setattr(live, "compare", spoiled)
            with pytest.raises(InvariantBroken, match="copies_are_equal"):
                await move_live(land.context(), name, "set-2")
        assert await open_move(land.context(), xx) is None
        await traffic.more(100)
        await nothing_left(land, "set-2", xx)
        assert (await move_live(land.context(), name, "set-2")).complete
        await traffic.more(100)
    assert traffic.failures == []
    assert (await land.settled()).holds
    await no_stream(land)


async def test_a_stall_that_would_be_too_long_is_given_up(land: Land, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the comparison takes too long the traffic goes on where it was; the next try goes on from the copy."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)

    async def slow(*_):
        await asyncio.sleep(60)

    async with traffic.busy():
        await traffic.more(200)
        with monkeypatch.context() as patch:
            patch.setattr(live, "compare", slow)
            patch.setattr(live, "CUTOVER_S", 0.8)
            with pytest.raises(Unavailable) as caught:
                await move_live(land.context(), name, "set-2")
        assert caught.value.code == "stall_too_long"
        assert land.topology.set_for_database(xx).name == "set-1"
        assert land.topology.held == ()
        await traffic.more(100)
        with pytest.raises(Refused) as other:
            await move_by_time(land.context(), name, "set-2")
        assert other.value.code == "other_move"
        assert (await move_live(land.context(), name, None)).complete
        await traffic.more(100)
    assert traffic.failures == []
    assert (await land.settled()).holds
    await no_stream(land)


async def test_a_server_that_has_not_heard_is_fenced(land: Land, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gateway and server that go on by the old topology can write nothing of the database, and lose nothing else."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    neighbour = Traffic(land, land.topology.databases_of("set-1")[1])
    deaf, gateway = land.nodes["set-1"].ownership, land.gateway.sets
    assert gateway is not None
    asked, refused = 0, []

    async def followed(*_: object, **__: object) -> None:
        """Before the stall think that all have heard; after the switch let them hear, once they have met the fence."""
        nonlocal asked
        asked += 1
        if asked == 2:
            refused.extend(await until_refused(traffic))
            monkeypatch.undo()

    async with traffic.busy(), neighbour.busy():
        await traffic.more(100)
        await neighbour.more(100)
        monkeypatch.setattr(deaf._file, "reload", lambda: False)
        monkeypatch.setattr(deaf, "_compare_epochs", lambda *_: None)
        monkeypatch.setattr(gateway.routing, "_take_newer", lambda: None)
        monkeypatch.setattr(calls, "HOLD_S", 0.2)
        monkeypatch.setattr(live, "all_follow", followed)
        moved = await move_live(land.context(grace_s=GRACE_S), name, "set-2")
        assert moved.complete
        traffic.failures.clear()
        await neighbour.more(100)
        await traffic.more(100)
    assert all("'busy'" in one or "'wrong_set'" in one for one in refused), refused
    assert traffic.failures == []
    assert neighbour.failures == []
    await traffic.all_stands()
    # Creates that paid in and met the fence, and were not repeated, are undone by the new SET's sweeper.
    await land.sweep("set-2")
    report = await land.settled()
    assert report.holds, report.violations
    assert report.sums.claims == len(traffic.heard) + len(neighbour.heard)


async def until_refused(traffic: Traffic) -> list[str]:
    """Wait until some have met the fence; returns what they were told."""
    async with asyncio.timeout(20):
        while len(traffic.failures) < 10:
            await asyncio.sleep(0.05)
    return list(traffic.failures)


async def test_days_that_are_made_meanwhile_come_along(land: Land, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the stall, which does not begin then, and in it, which ends it: the move takes in what came, by itself."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    follow, fence, ahead, fences = live.all_follow, leaves.fence, iter((2, 3)), 0

    async def before(*asked: Any, **more: Any) -> None:
        if fences == 0:
            await land.tables(ahead_days=next(ahead, 2))
        await follow(*asked, **more)

    async def within(*asked: Any) -> None:
        nonlocal fences
        fences += 1
        if fences == 1:
            await land.tables(ahead_days=4)
        await fence(*asked)

    # A day takes as long as it takes to make, here in the middle of the cutover.
    monkeypatch.setattr(live, "CUTOVER_S", 20.0)
    monkeypatch.setattr(live, "all_follow", before)
    monkeypatch.setattr(leaves, "fence", within)
    async with traffic.busy():
        await traffic.more(100)
    assert (await move_live(land.context(), name, "set-2")).complete
    assert fences == 2
    async with land.context().connect("set-2") as target:
        assert {*await leaves.hot_days(target, xx)} >= {land.today + timedelta(days=number) for number in range(5)}
    await traffic.all_stands()
    assert traffic.failures == []
    report = await land.settled()
    assert report.holds, report.violations
    await nothing_left(land, "set-1", xx)
    await no_stream(land)


async def test_days_that_do_not_stop_coming_end_the_try(land: Land, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, nothing stands still, and run again it goes on."""
    xx = land.database()
    name, ahead = database_name(xx), itertools.count(2)
    follow = live.all_follow

    async def another(*asked: Any, **more: Any) -> None:
        await land.tables(ahead_days=next(ahead))
        await follow(*asked, **more)

    monkeypatch.setattr(live, "DAY_TRIES", 2)
    with monkeypatch.context() as patch:
        patch.setattr(live, "all_follow", another)
        with pytest.raises(Unavailable) as coming:
            await move_live(land.context(), name, "set-2")
    assert coming.value.code == "leaves_changed"
    assert next(ahead) == 4
    assert land.topology.set_for_database(xx).name == "set-1"
    assert not land.topology.held
    assert (await move_live(land.context(), name, None)).complete
    assert (await land.settled()).holds


async def test_what_the_command_says(land: Land) -> None:
    """The tool prints what it moved and how long it stood still; done, it refuses to do it again."""
    xx = land.database()
    name = database_name(xx)
    status, said = await land.tool("live", name, "set-2", tell=True)
    told = json.loads(said)
    assert status == 0
    assert told["complete"]
    assert told["stall_s"] < live.CUTOVER_S
    with pytest.raises(Refused) as again:
        await move_live(land.context(), name, "set-2")
    assert again.value.code == "already_there"
    with pytest.raises(Refused) as nothing:
        await abort(land.context(), name)
    assert nothing.value.code == "no_move"
