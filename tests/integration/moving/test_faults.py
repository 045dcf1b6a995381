"""A live move whose SETs or disks fail it, or that restarts find elsewhere: the traffic never pays for it."""

import asyncio
import errno
from typing import Any

import asyncpg
import msgspec
import pytest

from days import crash_points
from errors import InvariantBroken, Refused, Unavailable
from machine import ports
from machine.postgres.server import Postgres
from moving import compare, cutover, live, servers
from moving.journal import move_lock, open_move, open_moves
from moving.moves import abort, move_live
from moving.replication import Replication
from moving.route import new_route
from sharding.slots import database_name
from sharding.topology import ServerSpec, SetSpec, change, file
from sharding.topology.changes import release
from tests.integration.moving.checks import no_stream, nothing_left, rows_of
from tests.integration.moving.fixtures import Land, Traffic, land
from tests.integration.moving.move_and_die import DIED

__all__ = ["land"]
pytestmark = [pytest.mark.faults, pytest.mark.timeout(120), pytest.mark.long]
SETS = ("set-1", "set-2")


async def some_traffic(traffic: Traffic, answers: int = 60) -> None:
    """People come, play and are answered as they should be."""
    async with traffic.busy(senders=2, people=4):
        await traffic.more(answers)
    assert traffic.failures == []


@pytest.mark.parametrize(
    ("point", "then"),
    [
        ("synced", "on"),
        ("synced", "back"),
        ("equal", "on"),
        ("equal", "back"),
        ("switched", "on"),
        ("switched", "back"),
    ],
)
async def test_it_outlives_a_restart_of_both_on_other_ports(land: Land, point: str, then: str) -> None:
    """The subscription remembers a port where nobody listens any more: the move can be finished, and undone."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    await some_traffic(traffic)
    async with land.reached_by_proxy(*SETS):
        assert (await land.tool("live", name, "set-2", point))[0] == DIED
    async with land.reached_by_proxy(*SETS):
        if then == "on":
            assert (await move_live(land.context(), name, None)).complete
        elif point == "switched":
            with pytest.raises(Refused) as late:
                await abort(land.context(), name)
            assert late.value.code == "too_late"
            assert (await move_live(land.context(), name, None)).complete
        else:
            assert (await abort(land.context(), name)).step == "aborted"
    assert await open_move(land.context(), xx) is None
    await some_traffic(traffic)
    await traffic.all_stands()
    report = await land.settled()
    assert report.holds, report.violations
    await nothing_left(land, "set-2" if (point, then) in (("synced", "back"), ("equal", "back")) else "set-1", xx)
    await no_stream(land)


async def free(land: Land, traffic: Traffic) -> None:
    """Nothing is held or fenced, and people are answered by the SET that they knew."""
    assert land.topology.held == ()
    assert land.topology.set_for_database(traffic.database).name == "set-1"
    assert await land.on("set-1", "SELECT FROM pg_trigger WHERE tgname = 'moved_away'") == []
    await some_traffic(traffic)


@pytest.mark.parametrize("then", ["on", "back"])
async def test_a_stall_ends_without_the_target(land: Land, then: str) -> None:
    """The tool dies behind the fence and the new SET with it: going on or back first lets the traffic go."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    await some_traffic(traffic)
    async with land.reached_by_proxy(*SETS) as proxies:
        assert (await land.tool("live", name, "set-2", "fenced"))[0] == DIED
        proxies["set-2"].vanish()
        journals = await open_moves(land.context())
        assert ([one.route.xx for one in journals.moves], list(journals.away)) == ([xx], ["set-2"])
        with pytest.raises(Unavailable, match="set-2") as away:
            await (move_live(land.context(), name, None) if then == "on" else abort(land.context(), name))
        assert away.value.code == "database_unavailable"
        await free(land, traffic)
    done = await (move_live(land.context(), name, None) if then == "on" else abort(land.context(), name))
    assert done.step == {"on": "done", "back": "aborted"}[then]
    await some_traffic(traffic)
    await traffic.all_stands()
    assert (await land.settled()).holds
    await no_stream(land)


async def test_a_target_that_goes_silent_in_the_stall_is_left(land: Land) -> None:
    """It answers nothing any more, not even a rollback: the stall ends in its time all the same."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    await some_traffic(traffic)
    async with land.reached_by_proxy(*SETS) as proxies:

        def hang(point: str) -> None:
            if point == "fenced":
                proxies["set-2"].hang()

        async with traffic.busy():
            with pytest.raises(Unavailable) as silent, crash_points.armed(hang):
                await move_live(land.context(), name, "set-2")
        assert silent.value.code == "stall_too_long"
        assert all("'busy'" in one for one in traffic.failures), traffic.failures
        traffic.failures.clear()
        await free(land, traffic)
    assert (await move_live(land.context(), name, None)).complete
    await some_traffic(traffic)
    await traffic.all_stands()
    assert (await land.settled()).holds


async def test_a_target_lost_while_the_copies_are_compared(land: Land, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source is in the middle of its sums then; it is let go of, and the stall ends."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    await some_traffic(traffic)
    target, sums = land.dsns["set-2"].rpartition("/")[2], compare.sums

    async def lost(connection: Any, leaves: Any, **bounds: Any) -> Any:
        if bounds.get("after") is None:
            return await sums(connection, leaves, **bounds)
        if await connection.fetchval("SELECT current_database()") == target:
            raise ConnectionResetError("lost in the stall")
        return await connection.execute("SELECT pg_sleep(30)")

    monkeypatch.setattr(compare, "sums", lost)
    async with traffic.busy():
        with pytest.raises(ConnectionResetError):
            await move_live(land.context(), name, "set-2")
    await free(land, traffic)
    monkeypatch.undo()
    assert (await move_live(land.context(), name, None)).complete
    await some_traffic(traffic)
    assert (await land.settled()).holds


@pytest.mark.parametrize("where", ["file", "folder"])
async def test_a_disk_that_fails_the_switch(land: Land, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Not written: the traffic goes on where it was. Written, perhaps not durable: it has switched, and is finished."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    await some_traffic(traffic)
    dump, sync = file.dump, file._sync_folder

    def full(topology: Any, path: Any) -> None:
        if topology.set_for_database(xx).name == "set-2":
            if where == "folder":
                monkeypatch.setattr(file, "_sync_folder", failing)
                dump(topology, path)
            raise OSError(errno.ENOSPC, "no space left")
        dump(topology, path)

    def failing(path: Any) -> None:
        sync(path)
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(file, "dump", full)
    async with traffic.busy():
        with pytest.raises(OSError, match=r"space|input"):
            await move_live(land.context(), name, "set-2")
    assert traffic.failures == []
    if where == "file":
        await free(land, traffic)
    else:
        assert (land.topology.held, land.topology.set_for_database(xx).name) == ((), "set-2")
        with pytest.raises(OSError, match="input"):
            await move_live(land.context(), name, None)
    monkeypatch.undo()
    assert (await move_live(land.context(), name, None)).complete
    await some_traffic(traffic)
    await traffic.all_stands()
    assert (await land.settled()).holds


async def test_a_tool_that_finds_the_hold_gone_does_not_switch(land: Land) -> None:
    """Stopped in its cutover while another lets the traffic go, it must not switch on its old comparison."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    await some_traffic(traffic)

    def let_go(point: str) -> None:
        if point == "equal":
            change(land.path, lambda old: release(old, xx))

    with pytest.raises(Unavailable) as late, crash_points.armed(let_go):
        await move_live(land.context(), name, "set-2")
    assert late.value.code == "hold_lost"
    await free(land, traffic)
    assert (await move_live(land.context(), name, None)).complete
    await some_traffic(traffic)
    await traffic.all_stands()
    assert (await land.settled()).holds


async def test_a_tool_whose_lock_went_to_another_leaves_its_cutover_alone(land: Land) -> None:
    """Who holds the move's lock is told by its backend: only that process releases what is held."""
    xx = land.database()
    route = new_route(land.topology, xx, "set-2")
    async with move_lock(land.context(), route) as connection:
        own = connection.get_server_pid()
        assert not await cutover.taken_over(land.context(), route, own)
        assert await cutover.taken_over(land.context(), route, own + 1)
        other = new_route(land.topology, land.topology.databases_of("set-1")[1], "set-2")
        assert not await cutover.taken_over(land.context(), other, own + 1)
    assert not await cutover.taken_over(land.context(), route, own + 1)


async def test_the_copy_is_on_the_disk_before_the_switch(land: Land, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a subscription commits without waiting is flushed by the last act before the topology file is written."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    await some_traffic(traffic)
    flushed: list[tuple[bool, bool, str]] = []
    make_durable = cutover.make_durable

    async def watched(target: Any) -> None:
        async with target.transaction():
            await target.execute("SET LOCAL synchronous_commit = off; CREATE TABLE not_flushed (n int)")
        written = await target.fetchval("SELECT pg_current_wal_insert_lsn()")
        reached = "SELECT pg_current_wal_flush_lsn() >= $1"
        before = await target.fetchval(reached, written)
        await make_durable(target)
        flushed.append((before, await target.fetchval(reached, written), land.topology.set_for_database(xx).name))
        await target.execute("DROP TABLE not_flushed")

    monkeypatch.setattr(cutover, "make_durable", watched)
    assert (await move_live(land.context(), name, "set-2")).complete
    # Whether it was flushed before is the walwriter's doing; afterwards it is, and the switch is still to come.
    assert [(after, owner) for _, after, owner in flushed] == [(True, "set-1")]


@pytest.mark.parametrize("point", ["switched", "settled"])
async def test_old_copies_of_a_live_move_stay_if_the_target_lost_rows(
    land: Land, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """Stopped after the switch while the new SET was restored: old rows are compared, and nothing is dropped."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    await some_traffic(traffic, 120)
    rows = await rows_of(land, "set-1", xx)
    assert (await land.tool("live", name, "set-2", point))[0] == DIED
    connection = await asyncpg.connect(land.dsns["set-2"])
    kept = await connection.fetchrow("SELECT * FROM claim WHERE slot / 10 = $1 ORDER BY claimed_at LIMIT 1", xx)
    await connection.execute("SET session_replication_role = replica")
    await connection.execute("DELETE FROM claim WHERE envelope_id = $1 AND seq = $2", kept["envelope_id"], kept["seq"])
    monkeypatch.setattr(compare, "SETTLED_S", 0.0)
    with pytest.raises(InvariantBroken, match="copies_are_equal"):
        await move_live(land.context(), name, None)
    assert await rows_of(land, "set-1", xx) == rows
    places = ", ".join(f"${number}" for number in range(1, len(kept) + 1))
    await connection.execute(f"INSERT INTO claim ({', '.join(kept.keys())}) VALUES ({places})", *kept)
    await connection.close()
    assert (await move_live(land.context(), name, None)).complete
    assert await rows_of(land, "set-1", xx) == 0
    assert (await land.settled()).holds


async def test_a_release_that_fails_does_not_hide_why_it_was_needed(
    land: Land, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stall was too long and then the source was lost: both are said, and the next run lets the traffic go."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    await some_traffic(traffic)
    unfence = cutover.leaves.unfence

    async def lost(*_: Any) -> None:
        raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")

    async def slow(*_: Any) -> None:
        await asyncio.sleep(60)

    with monkeypatch.context() as patch:
        patch.setattr(live, "compare", slow)
        patch.setattr(live, "CUTOVER_S", 0.8)
        patch.setattr(cutover.leaves, "unfence", lost)
        said_both = "at a quieter hour; and the traffic could not be released: set-1 was lost"
        with pytest.raises(Unavailable, match=said_both) as said:
            await move_live(land.context(), name, "set-2")
    assert said.value.code == "stall_too_long"
    assert cutover.leaves.unfence is unfence
    assert land.topology.held == (name,)
    assert (await move_live(land.context(), name, None)).complete
    await some_traffic(traffic)
    assert (await land.settled()).holds


async def test_no_password_of_a_move_is_logged_or_shown(land: Land, postgres: Postgres) -> None:
    """A subscription that fails leaves neither its text in the log nor in what the audit's role may look at."""
    xx = land.database()
    start = postgres.log.size()
    async with land.context().connect("set-1") as source, land.context().connect("set-2") as target:
        dsn = land.owners["set-1"].replace("secret_of", "seen_by_all")
        replication = Replication(xx, source, target, dsn)
        await replication.publish([])
        with pytest.raises(asyncpg.PostgresError):
            await replication.subscribe()
        seen = await land.on("set-2", "SELECT query FROM pg_stat_activity WHERE query LIKE '%seen' || '_by_all%'")
        assert seen == []
        assert await target.fetchval("SHOW track_activities") == "on"
        await replication.end()
    with postgres.log.path.open() as log:
        log.seek(start)
        written = log.read()
    assert "could not connect to the publisher" in written
    assert "seen_by_all" not in written


async def test_only_a_server_that_refuses_connections_is_stopped(land: Land) -> None:
    """One to which there is no way may be running with the old file: the move waits for it and says its name."""
    topology = land.topology
    unreachable = msgspec.structs.replace(
        topology,
        sets=(topology.sets[0], SetSpec("set-2", (ServerSpec("set-2-a", "http://255.255.255.255:1"),))),
    )
    with pytest.raises(Unavailable, match="set-2-a do not go by") as lag:
        await servers.all_follow(unreachable, "set-1", "set-2", patience_s=0.5)
    assert lag.value.code == "servers_lag"
    stopped = msgspec.structs.replace(
        topology,
        sets=(topology.sets[0], SetSpec("set-2", (ServerSpec("set-2-a", f"http://127.0.0.1:{ports.free_port()}"),))),
    )
    await servers.all_follow(stopped, "set-1", "set-2", patience_s=0.5)


async def test_a_silent_set_is_named_and_not_waited_for(land: Land, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Postgres that is frozen keeps its connections: the list of moves names it, as one that is away."""
    monkeypatch.setattr("runtime.postgres.connection.ASKED_S", 1.0)
    async with land.reached_by_proxy(*SETS) as proxies:
        proxies["set-2"].hang()
        journals = await open_moves(land.context())
        assert (journals.moves, list(journals.away)) == ([], ["set-2"])
