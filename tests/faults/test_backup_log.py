"""The kept log of one Postgres: received through restarts, never silently cut, never read wrongly by a restore."""

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from backup.backups import Backups
from backup.folder import BackupFolder, LogState, log_state
from backup.logkeeper import LogKeeper, LogStatus, status_at_server
from backup.programs import Source
from errors import Refused
from machine.account import Account
from machine.postgres.server import Postgres, PostgresSpec

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]
PASSWORDS = {"postgres": "pw"}


def postgres(folder: Path, account: Account, name: str = "set-1", **settings: str) -> Postgres:
    spec = PostgresSpec(name, folder / "postgres" / name, folder / "logs" / f"{name}.log", PASSWORDS, settings=settings)
    return Postgres(spec, account=account)


def source(server: Postgres) -> Source:
    return Source("set-1", server.dsn(), PASSWORDS)


async def sql(server: Postgres, *statements: str) -> Any:
    connection = await asyncpg.connect(server.dsn(), timeout=10)
    try:
        return [await connection.fetchval(one) for one in statements][-1]
    finally:
        await connection.close()


async def write(server: Postgres, segments: int = 1) -> None:
    """Commit a row in each of so many segments of the log."""
    await sql(server, "CREATE TABLE IF NOT EXISTS t (n int)")
    for _ in range(segments):
        await sql(server, "INSERT INTO t VALUES (1)", "SELECT pg_switch_wal()")
    await sql(server, "INSERT INTO t VALUES (1)")


async def until(holds: Callable[[], Any], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while True:
            found = holds()
            if await found if asyncio.iscoroutine(found) else found:
                return
            await asyncio.sleep(0.1)


class Keeping:
    """A log that is kept, and what was said about it."""

    def __init__(self, server: Postgres, folder: Path) -> None:
        self.server = server
        self.said: list[str] = []
        self.folder = BackupFolder(folder, "set-1")
        self.keeper = LogKeeper(lambda: source(self.server), self.folder, self.said.append)

    async def state(self) -> LogState:
        return (await self.keeper.status()).state

    async def state_at_server(self) -> LogState:
        """What the server says by itself, where nobody knows the folder (`doctor`)."""
        return (await status_at_server(self.server.dsn())).state

    async def kept(self) -> bool:
        """Whether all that is committed by now is here, to the byte."""
        return await self.keeper.status() == LogStatus(LogState.KEPT, 0)

    @asynccontextmanager
    async def on(self, *, anew: bool = False) -> AsyncIterator[None]:
        stop = asyncio.Event()
        receiving = asyncio.ensure_future(self.keeper.receive(stop, anew=anew))
        try:
            yield
        finally:
            stop.set()
            await receiving


async def test_the_log_is_kept_through_a_restart_elsewhere(server_folder: Path, account: Account) -> None:
    """A server that comes back under another address is found again; that it was away is told once."""
    first = postgres(server_folder, account)
    await first.start()
    keeping = Keeping(first, server_folder / "backups")
    assert await keeping.state() is LogState.NONE
    assert await keeping.state_at_server() is LogState.NONE
    try:
        async with keeping.on():
            await until(keeping.kept)
            assert await keeping.state_at_server() is LogState.KEPT
            with pytest.raises(Refused, match="already") as taken:
                await Keeping(first, server_folder / "backups").keeper.receive(asyncio.Event())
            assert taken.value.code == "log_already_kept"
            await first.stop()
            await until(lambda: keeping.said)
            second = postgres(server_folder, account)
            await second.start()
            keeping.server = second
            assert second.port != first.port
            await write(second, 3)
            await until(keeping.kept)
            assert all("not kept just now" in one for one in keeping.said)
            assert len(keeping.said) == len(set(keeping.said)) <= 3
        await until(lambda: _is(keeping, LogState.AWAY))
        assert await keeping.state_at_server() is LogState.AWAY
    finally:
        await keeping.server.stop()


async def _is(keeping: Keeping, state: LogState) -> bool:
    return await keeping.state() is state


@pytest.mark.long
async def test_a_log_thrown_away_is_noticed_and_begun_anew(server_folder: Path, account: Account) -> None:
    """Once the server has thrown away what was not received nothing says whole; anew and a new copy make it so."""
    server = postgres(server_folder, account, max_slot_wal_keep_size="16MB", min_wal_size="32MB")
    await server.start()
    keeping, backups = Keeping(server, server_folder / "backups"), Backups(source(server), server_folder / "backups")
    try:
        async with keeping.on():
            await until(keeping.kept)
            old = await backups.take()
            await write(server)
            await until(keeping.kept)
        while await keeping.state() is not LogState.LOST:
            await write(server, 3)
            await sql(server, "CHECKPOINT")
        assert await keeping.state_at_server() is LogState.LOST
        with pytest.raises(Refused, match="--anew") as lost:
            await keeping.keeper.receive(asyncio.Event())
        assert lost.value.code == "log_lost"
        async with keeping.on(anew=True):
            await until(keeping.kept)
            new = await backups.take()
            await write(server)
            await until(keeping.kept)
        assert keeping.folder.gap_after(old) is not None
        assert keeping.folder.gap_after(new) is None
        rows = await sql(server, "SELECT count(*) FROM t")
        copy = await backups.restore(server_folder / "new", None)
        try:
            assert await sql(copy, "SELECT count(*) FROM t") == rows
        finally:
            await copy.stop()
    finally:
        await server.stop()


async def test_the_server_keeps_the_log_from_the_slot_on(server_folder: Path, account: Account) -> None:
    """Segments that come and would be recycled between the making of the slot and the first byte are all received."""
    server = postgres(server_folder, account, min_wal_size="32MB", max_wal_size="32MB")
    await server.start()
    keeping = Keeping(server, server_folder / "backups")
    try:
        await keeping.keeper._ensure_slot(source(server))
        first = await sql(server, "SELECT pg_walfile_name(restart_lsn) FROM pg_replication_slots")
        for _ in range(6):
            await write(server)
            await sql(server, "CHECKPOINT")
        async with keeping.on():
            await until(keeping.kept)
        assert min(one.name for one in keeping.folder.wal.iterdir() if len(one.stem) == len(first)) == first
    finally:
        await server.stop()


async def test_a_log_that_cannot_be_read_is_no_end_of_the_log(server_folder: Path, account: Account) -> None:
    """A kept segment that is there but unreadable, cut or empty refuses the restore; nothing opens in the middle."""
    server = postgres(server_folder, account)
    await server.start()
    keeping, backups = Keeping(server, server_folder / "backups"), Backups(source(server), server_folder / "backups")
    try:
        async with keeping.on():
            base = await backups.take()
            await write(server, 4)
            await until(keeping.kept)
    finally:
        await server.stop()
    middle = sorted(one for one in keeping.folder.wal.iterdir() if one.name > base.first_segment)[2]
    content = middle.read_bytes()
    into = server_folder / "into"
    for spoil in (_as_folder, _cut, _zeroed):
        spoil(middle)
        with pytest.raises(Refused) as refusal:
            await backups.restore(into, None)
        assert refusal.value.code == "log_unreadable"
        assert {one.name for one in into.iterdir()} == {"restore.lock", "restore.log"}
        if middle.is_dir():
            middle.rmdir()
        middle.write_bytes(content)
        account.chown(middle)
    copy = await backups.restore(into, None)
    try:
        assert await sql(copy, "SELECT count(*) FROM t") == 5
    finally:
        await copy.stop()


def _as_folder(segment: Path) -> None:
    segment.unlink()
    segment.mkdir()


def _cut(segment: Path) -> None:
    segment.write_bytes(segment.read_bytes()[:8192])


def _zeroed(segment: Path) -> None:
    segment.write_bytes(bytes(segment.stat().st_size))


async def test_two_copies_at_once_do_not_meet(server_folder: Path, account: Account) -> None:
    """The second of two is refused; what is listed afterwards was verified, and what was killed in is swept away."""
    server = postgres(server_folder, account)
    await server.start()
    try:
        backups = [Backups(source(server), server_folder / "backups") for _ in range(2)]
        left = backups[0].folder.base / "unfinished-killed.new"
        left.mkdir(parents=True)
        (left / "file").touch()
        done = await asyncio.gather(*(one.take() for one in backups), return_exceptions=True)
        refused = [one for one in done if isinstance(one, Refused)]
        assert [one.code for one in refused] == ["backup_runs"]
        await backups[1].take()
        bases = backups[0].folder.bases()
        assert len(bases) == 2
        assert {one.path for one in bases} == set(backups[0].folder.base.iterdir())
        for one in bases:
            await backups[0]._programs.run("pg_verifybackup", [str(one.path)], 60)
    finally:
        await server.stop()


async def test_a_restore_touches_no_folder_that_is_in_use(server_folder: Path, account: Account) -> None:
    """A folder with anything in it is refused, and its mode and content are what they were."""
    server = postgres(server_folder, account)
    await server.start()
    try:
        backups = Backups(source(server), server_folder / "backups")
        await backups.take()
        into = server_folder / "in use"
        into.mkdir()
        (into / "file").touch()
        into.chmod(0o1777)
        with pytest.raises(Refused, match="not empty") as refusal:
            await backups.restore(into, None)
        assert refusal.value.code == "folder_taken"
        assert stat.S_IMODE(into.stat().st_mode) == 0o1777
        assert [one.name for one in into.iterdir()] == ["file"]
        (into / "file").unlink()
        both = await asyncio.gather(backups.restore(into, None), backups.restore(into, None), return_exceptions=True)
        assert [one.code for one in both if isinstance(one, Refused)] == ["folder_taken"]
        assert stat.S_IMODE(into.stat().st_mode) == 0o1777
        for one in both:
            if isinstance(one, Postgres):
                assert await sql(one, "SELECT 1") == 1
                await one.stop()
    finally:
        await server.stop()


@pytest.mark.long
async def test_a_copy_does_not_take_part_in_a_live_move(server_folder: Path, account: Account) -> None:
    """The subscription in a copy stands still: the source's slot stays with the server that was copied."""
    origin, target = postgres(server_folder, account, "set-0"), postgres(server_folder, account)
    await asyncio.gather(origin.start(), target.start())
    try:
        for one in (origin, target):
            await sql(one, "CREATE TABLE moving (n int)")
        await sql(origin, "CREATE PUBLICATION p FOR TABLE moving")
        await sql(target, f"CREATE SUBSCRIPTION s CONNECTION '{origin.dsn()}' PUBLICATION p")
        follower = "SELECT active_pid FROM pg_replication_slots WHERE slot_name = 's'"
        await until(lambda: sql(origin, follower))
        backups = Backups(source(target), server_folder / "backups")
        await backups.take()
        copy = await backups.restore(server_folder / "into", None)
        try:
            # The real one lets go: nobody else may come.
            await target.stop()
            await sql(origin, "INSERT INTO moving VALUES (1)")
            assert await sql(copy, "SELECT count(*) FROM pg_subscription WHERE subenabled") == 1
            await sql(copy, "SELECT pg_sleep(3)")
            assert await sql(origin, follower) is None
            assert await sql(copy, "SELECT count(*) FROM moving") == 0
        finally:
            await copy.stop()
    finally:
        await asyncio.gather(origin.stop(), target.stop())


def test_a_log_is_judged_by_the_server_that_writes_it() -> None:
    """Only a log that a connected receiver has up to the server's own segment is kept."""
    three, four, five = (f"0000000100000000000000{one:02X}" for one in (3, 4, 5))
    other = f"00000002{three[8:]}"
    assert log_state(None, five, None, connected=False) is LogState.NONE
    assert log_state(three, five, None, connected=False) is LogState.LOST
    assert log_state(three, five, "lost", connected=False) is LogState.LOST
    assert log_state(other, five, "reserved", connected=True) is LogState.LOST
    assert log_state(five, five, "reserved", connected=False) is LogState.AWAY
    assert log_state(three, five, "extended", connected=True) is LogState.BEHIND
    assert log_state(None, five, "reserved", connected=True) is LogState.BEHIND
    assert log_state(three, other, "reserved", connected=True) is LogState.BEHIND
    assert log_state(four, five, "reserved", connected=True) is LogState.KEPT
    assert (
        log_state("0000000100000000000000FF", "000000010000000100000000", "reserved", connected=True) is LogState.KEPT
    )


def test_copies_that_ended_in_one_second_have_two_names(tmp_path: Path) -> None:
    """A name never stands for an instant before the copy's end, and none is taken twice."""
    folder = BackupFolder(tmp_path, "set-1")
    ended = datetime(2026, 11, 21, 10, 15, 0, 300_000, tzinfo=UTC)
    for number in range(2):
        unfinished = folder.base / f"{number}.new"
        (unfinished / "global").mkdir(parents=True)
        (unfinished / "global" / "pg_control").touch()
        (unfinished / "backup_manifest").write_text(json.dumps({}))
        (unfinished / "backup_label").write_text("START WAL LOCATION: 0/2000028 (file 000000010000000000000002)\n")
        assert folder.seal(unfinished, ended).taken_at == ended.replace(second=number + 1, microsecond=0)
    assert len(folder.bases()) == 2
