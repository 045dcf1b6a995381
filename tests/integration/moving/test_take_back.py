"""A move by time that is taken back before its first envelope: as if it had never begun."""

from datetime import date, timedelta

import pytest

from errors import Refused
from moving import take_back
from moving.journal import open_move
from moving.leaves import hot_days, in_catalog
from moving.moves import abort, move_by_time, plan_move
from sharding.slots import database_name
from tests.integration.moving.checks import as_it_was, until_final
from tests.integration.moving.fixtures import Land, Traffic, land
from tests.integration.moving.move_and_die import DIED

__all__ = ["land"]
pytestmark = [pytest.mark.faults, pytest.mark.timeout(240), pytest.mark.long]


async def _is_as_before(land: Land, xx: int, day: date) -> None:
    """No move is open; the first SET has the database for all dates, with its tables, the other one no table of it."""
    assert land.topology.moves == {}
    assert land.topology.set_for_database(xx).name == "set-1"
    assert await open_move(land.context(), xx) is None
    async with land.context().connect("set-2") as target, land.context().connect("set-1") as source:
        assert await hot_days(target, xx) == []
        assert [one for one in await hot_days(source, xx) if one >= day][:2] == [day, day + timedelta(days=1)]


async def test_a_plan_changes_nothing(land: Land) -> None:
    """What would begin is told with its date, and neither topology nor journal nor tables are touched."""
    name, before = database_name(land.database()), land.path.read_bytes()
    planned = await plan_move(land.context(), f"db_{land.database()}", "set-2")
    assert planned is not None
    assert (planned.database, planned.step, planned.source, planned.target) == (name, "not_begun", "set-1", "set-2")
    assert planned.valid_from == land.today + timedelta(days=1)
    with pytest.raises(Refused, match="already"):
        await plan_move(land.context(), name, "set-1")
    assert land.path.read_bytes() == before
    assert await land.on("set-1", "SELECT FROM move") == []


async def test_nobody_notices_a_move_taken_back(land: Land) -> None:
    """Under traffic a move begins, is taken back, and midnight passes: no request fails; it may begin anew."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    async with traffic.busy():
        await traffic.more(50)
        await move_by_time(land.context(), name, "set-2")
        with pytest.raises(Refused, match="days_not_past"):
            await move_by_time(land.context(), name, None)
        undone = await abort(land.context(), name)
        assert (undone.step, undone.source) == ("aborted", "set-1")
        await _is_as_before(land, xx, land.today + timedelta(days=1))
        land.at(land.today + timedelta(days=1))
        await land.tables()
        await traffic.more(100)
    assert traffic.failures == []
    async with land.context().connect("set-1") as source:
        assert land.today in await hot_days(source, xx)
    with pytest.raises(Refused, match="no move"):
        await abort(land.context(), name)
    await move_by_time(land.context(), name, "set-2")
    await abort(land.context(), name)
    await traffic.all_stands()
    report = await land.settled()
    assert report.holds, report.violations


async def test_it_is_too_late_with_the_first_envelope(land: Land) -> None:
    """Once the new SET has an envelope of the date the move stays as it is, and can be finished."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    await move_by_time(land.context(), name, "set-2")
    land.at(land.today + timedelta(days=1), minute=5)
    await land.tables()
    before = as_it_was(land.topology)
    async with traffic.busy():
        await traffic.more(50)
        with pytest.raises(Refused) as late:
            await abort(land.context(), name)
        assert (late.value.code, "set-2 already" in late.value.detail) == ("too_late", True)
        await traffic.more(50)
    assert traffic.failures == []
    assert as_it_was(land.topology) == before
    assert (await until_final(land, name)).complete


async def test_an_envelope_between_the_look_and_the_fence_is_kept(land: Land, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look behind the fence decides: the fence is lifted, the old SET's new tables go, and the move goes on."""
    xx = land.database()
    name, traffic, make = database_name(xx), Traffic(land, xx), take_back._make_tables
    await move_by_time(land.context(), name, "set-2")
    tomorrow = land.today + timedelta(days=1)

    async def meanwhile(*given) -> None:
        await make(*given)
        land.at(tomorrow, minute=5)
        await land.tables()
        async with traffic.busy():
            await traffic.more(50)

    monkeypatch.setattr(take_back, "_make_tables", meanwhile)
    with pytest.raises(Refused, match="already") as late:
        await abort(land.context(), name)
    assert late.value.code == "too_late"
    async with traffic.busy():
        await traffic.more(50)
    assert traffic.failures == []
    async with land.context().connect("set-1") as source:
        assert [day for day in await hot_days(source, xx) if day >= tomorrow] == []
    assert (await until_final(land, name)).complete


@pytest.mark.parametrize("point", ["undoing", "emptied", "taken_back", "aborted?"])
async def test_killed_while_it_is_taken_back(land: Land, point: str) -> None:
    """Killed at any step, the move can only be taken back further; the next call does, also after its date has come."""
    xx = land.database()
    name = database_name(xx)
    await move_by_time(land.context(), name, "set-2")
    assert await land.tool("abort", name, None, point) == (DIED, "")
    async with land.context().connect("set-2") as target:
        standing = await in_catalog(target, xx)
    assert all(leaf.fenced for leaf in standing.values()) == (point != "undoing"), "what is empty must stay empty"
    with pytest.raises(Refused, match="--abort"):
        await move_by_time(land.context(), name, None)
    land.at(land.today + timedelta(days=1), minute=5)
    await abort(land.context(), name)
    await _is_as_before(land, xx, land.today)
    await land.tables()
    traffic = Traffic(land, xx)
    async with traffic.busy():
        await traffic.more(50)
    assert traffic.failures == []
