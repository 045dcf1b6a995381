"""Rotation and moves on the same SETs: they exclude each other, and each finds what the other has done in between."""

import json
from datetime import date, timedelta
from pathlib import Path

import pytest

from errors import HongbaoError, InvariantBroken, Refused, Unavailable
from installation import inventory
from installation.data_folder import DataFolder
from installation.inventory import Cluster, Inventory
from moving import by_time, compare, leaves
from moving.journal import open_move
from moving.moves import abort, move_by_time, move_live
from rotation import lock
from rotation.fence import fence
from schema import roles
from sharding.ids import make_id
from sharding.slots import database_name
from tests import forks
from tests.integration.moving.checks import no_stream, rows_of, until_final
from tests.integration.moving.fixtures import Land, Traffic, land
from tests.integration.moving.move_and_die import DIED

__all__ = ["land"]
pytestmark = [pytest.mark.faults, pytest.mark.timeout(120), pytest.mark.long]


async def two_days(land: Land, traffic: Traffic, *, begin: bool) -> tuple[date, date]:
    """Two days of envelopes that are over and paid; with `begin` a move by time from the third on."""
    first = land.today
    async with traffic.busy():
        await traffic.more(60)
    land.at(first + timedelta(days=1), hour=12)
    await land.tables()
    async with traffic.busy():
        await traffic.more(60)
    if begin:
        await move_by_time(land.context(), database_name(traffic.database), "set-2")
    land.at(first + timedelta(days=3), hour=1)
    await land.tables()
    return first, first + timedelta(days=1)


async def copies_of(land: Land, xx: int, day: date) -> list[str]:
    """The leaves of a database and day that stand on set-2."""
    async with land.context().connect("set-2") as target:
        found = await leaves.in_catalog(target, xx)
    return [leaf.name for leaf in leaves.leaves_of(xx, [day]) if leaf.name in found]


async def fenced(land: Land) -> list[str]:
    """The leaves of set-1 round which a move has its fence."""
    rows = await land.on("set-1", "SELECT tgrelid::regclass::text AS leaf FROM pg_trigger WHERE tgname = 'moved_away'")
    return [row["leaf"] for row in rows]


async def die_at(land: Land, name: str, point: str) -> None:
    """Finish until a point, as soon as the days are over."""
    await until_final(land, name, tool=point)


@pytest.mark.parametrize(("point", "how"), [("fenced", "registered"), ("copied", "fenced"), ("attached", "registered")])
async def test_a_day_rotated_there_between_two_tries_stays(land: Land, point: str, how: str) -> None:
    """Its copies go, its fence is lifted, the younger day moves; registered or only fenced by a rotation that died."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    first, second = await two_days(land, traffic, begin=True)
    await die_at(land, name, point)
    if how == "registered":
        await land.register("set-2", first, land.topology.databases_of("set-2")[-1], "verified")
    else:
        async with land.context().connect("set-2") as target:
            await fence(target, first)
    done = await until_final(land, name)
    assert (done.step, done.left) == ("given_up", [first])
    assert await copies_of(land, xx, first) == []
    assert len(await copies_of(land, xx, second)) == 21
    assert await fenced(land) == []
    topology = land.topology
    assert topology.set_for(make_id(first, 1, xx * 10)).name == "set-1"
    assert topology.set_for(make_id(second, 1, xx * 10)).name == "set-2"
    await traffic.all_stands()
    assert traffic.failures == []
    # Again, with nothing new: what has moved is no copy of a try.
    assert (await until_final(land, name)).left == [first]
    assert len(await copies_of(land, xx, second)) == 21
    assert (await land.settled()).holds


async def test_a_day_that_is_rotated_after_the_switch_is_no_copy(land: Land, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before it could write the switch down, the tool neither drops nor copies anew what the new SET owns."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    first, _ = await two_days(land, traffic, begin=True)
    await until_final(land, name, tool="switched?")
    await land.register("set-2", first, land.topology.databases_of("set-2")[-1], "verified")
    there = await rows_of(land, "set-2", xx)

    async def copied(*_: object) -> None:
        raise AssertionError("copied over the rows of their owner")

    monkeypatch.setattr(by_time, "copy", copied)
    assert (await until_final(land, name)).complete
    assert await rows_of(land, "set-2", xx) == there
    assert await rows_of(land, "set-1", xx) == 0
    await traffic.all_stands()
    assert traffic.failures == []


async def test_when_the_last_day_is_being_rotated_all_is_given_back(land: Land) -> None:
    """Nothing can be taken then; a fence that stayed would keep rotation from ever ending, and so the move."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    first, second = await two_days(land, traffic, begin=True)
    await die_at(land, name, "copied")
    await land.register("set-2", second, land.topology.databases_of("set-2")[-1], "verified")
    with pytest.raises(Refused, match="days_being_rotated"):
        await move_by_time(land.context(), name, None)
    assert await fenced(land) == []
    assert await copies_of(land, xx, first) == await copies_of(land, xx, second) == []
    entry = await open_move(land.context(), xx)
    assert entry is not None
    assert entry.step == "given_up"
    await traffic.all_stands()
    assert traffic.failures == []


@pytest.mark.parametrize("set_name", ["set-1", "set-2"])
async def test_while_one_is_rotated_the_other_waits(land: Land, monkeypatch: pytest.MonkeyPatch, set_name: str) -> None:
    """A rotation at work on either SET keeps both moves from taking days over, and the other way round."""
    xx, other = land.topology.databases_of("set-1")[:2]
    name, traffic = database_name(xx), Traffic(land, xx)
    await two_days(land, traffic, begin=True)
    await until_final(land, name, code="rotation_busy", rotating=land.owners[set_name])
    with pytest.raises(Unavailable) as busy:
        async with lock.rotation_lock(land.owners[set_name]):
            await move_live(land.context(), database_name(other), "set-2")
    assert busy.value.code == "rotation_busy"
    assert await fenced(land) == []
    heard = []

    async def rotate(*_: object) -> None:
        try:
            async with lock.rotation_lock(land.owners[set_name]):
                heard.append("nothing")
        except HongbaoError as error:
            heard.append(error.code)

    monkeypatch.setattr(by_time.ByTime, "_check_still_hot", rotate)
    assert (await until_final(land, name)).complete
    assert heard == ["rotation_busy"]
    monkeypatch.undo()
    assert (await move_live(land.context(), database_name(other), None)).complete


async def test_copies_that_differ_are_given_back_also_by_a_tool_that_dies(
    land: Land, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while it throws the copies away, the next try begins anew and does not ask for tables that are gone."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    await two_days(land, traffic, begin=True)
    await die_at(land, name, "copied")

    async def differ(*_: object) -> None:
        raise InvariantBroken("copies_are_equal", "one of many")

    async def half(connection: object, taken: object) -> None:
        await drop(connection, taken)
        raise ConnectionResetError("killed")

    drop = leaves.drop
    with monkeypatch.context() as patch:
        patch.setattr(by_time, "compare", differ)
        patch.setattr(leaves, "drop", half)
        with pytest.raises(ConnectionResetError):
            await move_by_time(land.context(), name, None)
    assert (await until_final(land, name)).complete
    await traffic.all_stands()
    assert traffic.failures == []
    assert await rows_of(land, "set-1", xx) == 0
    assert (await land.settled()).holds


@pytest.mark.parametrize("then", ["on", "back"])
async def test_a_live_move_leaves_no_copy_of_a_day_that_stays(
    land: Land, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """A day that is rotated there between two tries is followed no longer and its copy goes; an abort takes all."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    first, second = await two_days(land, traffic, begin=False)
    assert (await land.tool("live", name, "set-2", "attached"))[0] == DIED
    assert len(await copies_of(land, xx, first)) == 21
    async with land.context().connect("set-2") as target:
        await fence(target, first)
    await land.register("set-2", first, land.topology.databases_of("set-2")[-1], "verified")
    # What waits in the stream for that day cannot be written there any more, and must not keep the rest waiting.
    await land.on("set-1", "INSERT INTO guest VALUES ($1, $2, 1, false, 'u')", make_id(first, 1, xx * 10), xx * 10)
    if then == "back":

        async def killed(*_: object) -> None:
            raise ConnectionResetError("killed")

        with monkeypatch.context() as patch:
            patch.setattr(leaves, "drop", killed)
            with pytest.raises(ConnectionResetError):
                await move_live(land.context(), name, None)
        assert (await abort(land.context(), name)).step == "aborted"
        assert await copies_of(land, xx, first) == await copies_of(land, xx, second) == []
    else:
        assert (await move_live(land.context(), name, None)).left == [first]
        assert await copies_of(land, xx, first) == []
        assert len(await copies_of(land, xx, second)) == 21
    await traffic.all_stands()
    assert traffic.failures == []
    await no_stream(land)
    assert (await land.settled()).holds


@pytest.mark.parametrize("point", ["by_time?", "by_time"])
async def test_a_live_move_that_leaves_days_is_finished_by_time(land: Land, point: str) -> None:
    """Killed where it becomes a move by time it goes on as one: what stayed follows once it is in the archive."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    first, second = await two_days(land, traffic, begin=False)
    await land.register("set-1", first, xx, "verified")
    assert (await land.tool("live", name, "set-2", point))[0] == DIED
    if point == "by_time?":
        assert (await move_live(land.context(), name, None)).left == [first]
    entry = await open_move(land.context(), xx)
    assert entry is not None
    assert (entry.kind, entry.step, entry.valid_from) == ("by_time", "given_up", second)
    await land.register("set-1", first, xx, "dropped")
    for leaf in leaves.leaves_of(xx, [first]):
        await land.on("set-1", f"DROP TABLE {leaf.name}")
    assert (await until_final(land, name)).complete
    assert len(await copies_of(land, xx, second)) == 21
    assert await compare_days(land, xx, second)


async def test_the_command_ends_with_1_while_days_stay(land: Land, tmp_path: Path) -> None:
    """A live move leaves a day that rotation has taken: exit status 1, the day by name; once it is gone, 0."""
    xx = land.database()
    name = database_name(xx)
    yesterday = land.databases.day - timedelta(days=1)
    await land.register("set-1", yesterday, xx, "verified")
    owners = {one: Cluster(dsns={roles.OWNER: dsn}) for one, dsn in land.owners.items()}
    data = DataFolder(tmp_path / "data")
    data.path.mkdir()
    wallet = Cluster(dsns={roles.AUDIT: land.auditor, roles.OWNER: land.wallet_owner})
    inventory.save(Inventory(
        clusters={**owners, "wallet": wallet}, gateways={}, wallet_url="", memcached="", topology=str(land.path),
        archive="", secrets=str(data.secrets),
    ), data.inventory)  # fmt: skip
    words = ("topology", "move", name, "--to", "set-2", "--data", str(data.path), "--json")
    left = await forks.hongbao(*words, "--live", "--yes")
    assert (left.status, json.loads(left.out)["days_left"]) == (1, [str(yesterday)]), left.err
    again = await forks.hongbao(*words, "--yes")
    assert (again.status, str(yesterday) in again.err) == (1, True)
    await land.register("set-1", yesterday, xx, "dropped")
    done = await forks.hongbao(*words, "--yes")
    assert (done.status, json.loads(done.out)["complete"]) == (0, True), done.err


async def compare_days(land: Land, xx: int, day: date) -> bool:
    """Say whether set-2 has rows of that day."""
    async with land.context().connect("set-2") as target:
        return any(one.rows for one in (await compare.sums(target, leaves.leaves_of(xx, [day]))).values())
