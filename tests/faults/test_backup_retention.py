"""Backups of everything at once, on a machine where nothing runs, and old ones that go."""

import asyncio
import json
import os
import shutil
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from backup.backups import Backups
from backup.folder import BackupFolder
from backup.programs import Source
from backup.retention import plan_prune
from errors import Refused
from local.stack import Stack
from machine.account import Account
from machine.file_lock import hold_lock
from tests.faults.test_backup_log import Keeping, postgres, source, sql, until, write
from tests.forks import hongbao
from tests.integration.local.test_stack import config

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]


async def rows(backups: Backups, into: Path) -> int:
    server = await backups.restore(into, None)
    try:
        return await sql(server, "SELECT count(*) FROM t")
    finally:
        await server.stop()


@pytest.mark.long
async def test_what_is_kept_restores_as_before(server_folder: Path, account: Account) -> None:
    """With two copies kept the third and its log go; both kept ones still lead to the last row, and so on again."""
    server = postgres(server_folder, account)
    await server.start()
    keeping = Keeping(server, server_folder / "backups")
    backups = Backups(source(server), server_folder / "backups")
    try:
        async with keeping.on():
            for _ in range(3):
                await write(server, 2)
                await backups.take()
            await write(server, 2)
            await until(keeping.kept)
            wanted = await sql(server, "SELECT count(*) FROM t")
            folder = backups.folder
            plan = plan_prune(folder, 2)
            before = sorted(folder.home.rglob("*"))
            assert len(plan.bases) == 1
            assert plan.segments
            assert sorted(folder.home.rglob("*")) == before
            plan.remove()
            assert [folder.gap_after(base) for base in folder.bases()] == [None, None]
            assert not any(path.exists() for path in (plan.bases[0].path, *plan.segments))
            assert (plan_prune(folder, 2).bases, plan_prune(folder, 2).segments) == ([], [])
            await write(server, 1)
            await until(keeping.kept)
        assert await rows(backups, server_folder / "newest") == wanted + 2
        shutil.rmtree(folder.bases()[-1].path)
        assert await rows(backups, server_folder / "older") == wanted + 2
    finally:
        await server.stop()


async def test_no_copy_goes_while_it_is_read_or_taken(server_folder: Path, account: Account) -> None:
    """Beside a restore or a copy that is being taken nothing is removed; without a copy no log goes either."""
    server = postgres(server_folder, account)
    await server.start()
    keeping = Keeping(server, server_folder / "backups")
    try:
        async with keeping.on():
            await write(server, 2)
            await until(keeping.kept)
        assert plan_prune(keeping.folder, 1).segments == []
        backups = Backups(source(server), server_folder / "backups")
        await backups.take()
        await backups.take()
    finally:
        await server.stop()
    plan = plan_prune(keeping.folder, 1)
    for name, shared in (("readers.lock", True), ("take.lock", False)):
        with (
            hold_lock(keeping.folder.home / name, lambda _: Refused("x", "x"), shared=shared),
            pytest.raises(Refused, match="nothing was removed"),
        ):
            plan.remove()
    assert len(keeping.folder.bases()) == 2
    plan.remove()
    assert len(keeping.folder.bases()) == 1


@pytest.mark.usefixtures("own_initdb")
async def test_two_clusters_do_not_share_a_folder(server_folder: Path, account: Account) -> None:
    """A server of another installation is refused by `take` and `log`: it would prune the copies of this one."""
    folder = server_folder / "backups"
    first = postgres(server_folder / "one", account)
    other = postgres(server_folder / "two", account)
    for home in ("one", "two"):
        (server_folder / home).mkdir(mode=0o711)
    await first.start()
    await other.start()
    try:
        await Backups(source(first), folder).take()
        with pytest.raises(Refused) as taken:
            await Backups(source(other), folder).take()
        with pytest.raises(Refused) as kept:
            await Keeping(other, folder).keeper.receive(asyncio.Event())
        assert {taken.value.code, kept.value.code} == {"backup_of_another"}
        assert len(BackupFolder(folder, "set-1").bases()) == 1
        assert await sql(other, "SELECT count(*) FROM pg_replication_slots") == 0
    finally:
        await first.stop()
        await other.stop()


@pytest.mark.long
async def test_backups_are_closed_whatever_the_umask(server_folder: Path, account: Account) -> None:
    """Copies, log and what the programs say can be read by their owner only, and the folder be listed by ours."""
    server = postgres(server_folder, account)
    await server.start()
    folder = server_folder / "kept" / "backups"
    before = os.umask(0)
    try:
        keeping = Keeping(server, folder)
        async with keeping.on():
            await Backups(source(server), folder).take()
            await until(keeping.kept)
    finally:
        os.umask(before)
        await server.stop()
    assert folder.stat().st_mode & 0o066 == 0
    for path in (folder / "set-1").rglob("*"):
        assert path.is_symlink() or path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize("link", ["", "wal", "base", "take.lock"])
async def test_no_link_is_followed(server_folder: Path, link: str) -> None:
    """Whoever owns the backups could put one there, and root would write, or give away, what it leads to."""
    home, theirs = server_folder / "backups" / "set-1", server_folder / "theirs"
    theirs.mkdir(mode=0o755)
    (theirs / "file").write_text("theirs")
    before = theirs.stat()
    home.parent.mkdir()
    if link:
        home.mkdir()
    (home / link).symlink_to(theirs / "file" if link == "take.lock" else theirs)
    nobody = Source("set-1", "postgresql://postgres:x@127.0.0.1:1/postgres", {})
    backups = Backups(nobody, server_folder / "backups")
    works = [backups.take, partial(backups.restore, server_folder / "into", None)]
    for work in works[:1] if link == "take.lock" else works:
        with pytest.raises(Refused) as raised:
            await work()
        assert raised.value.code == "symlink_refused"
    assert [one.name for one in theirs.iterdir()] == ["file"]
    assert (theirs / "file").read_text() == "theirs"
    assert (theirs.stat().st_uid, theirs.stat().st_mode) == (before.st_uid, before.st_mode)


@pytest.mark.long
async def test_a_restore_needs_files_only(server_folder: Path) -> None:
    """With the host lost, inventory, secrets and backups are enough, in another place; then the stack starts there."""
    folder = str(server_folder / "backups")
    new = server_folder / "new"
    async with Stack(config(server_folder, sets=1, servers=1)) as stack:
        connection = await asyncpg.connect(stack.postgres("set-1").dsn("hongbao_owner", "hongbao"))
        await connection.execute("CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)")
        await connection.close()
        words = ["--folder", folder, "--data", str(stack.folder.path), "--json"]
        taken = await hongbao("backup", "take", "all", *words)
        assert taken.status == 0, taken.err
        assert [one["server"] for one in json.loads(taken.out)["servers"]] == ["wallet", "set-1"]
        listed = await hongbao("backup", "list", *words)
        assert [len(one["bases"]) for one in json.loads(listed.out)["servers"]] == [1, 1]
    new.mkdir(mode=0o711)
    new.chmod(0o711)
    for name in ("installation.toml", "secrets.json", "topology.json"):
        (server_folder / "data" / name).rename(new / name)
    shutil.rmtree(server_folder / "data")
    words = ["--folder", folder, "--data", str(new), "--json"]
    unproven = await hongbao("backup", "restore", "set-1", "--into", str(server_folder / "look"), *words)
    assert unproven.status == 1
    assert "does not answer" in json.loads(unproven.out)["not_audited"]
    (new / "postgres").mkdir()
    for name in ("set-1", "wallet"):
        into = server_folder / f"restored-{name}"
        done = await hongbao("backup", "restore", name, "--into", str(into), "--no-audit", *words)
        assert done.status == 0, done.err
        (into / "postgres" / name).rename(new / "postgres" / name)
    new.rename(server_folder / "data")
    async with Stack(config(server_folder, sets=1, servers=1)) as stack:
        connection = await asyncpg.connect(stack.postgres("set-1").dsn("hongbao_owner", "hongbao"))
        assert await connection.fetchval("SELECT n FROM kept") == 7
        await connection.close()


async def test_old_copies_go_by_command_only_when_it_is_said(server_folder: Path) -> None:
    """`prune` shows what would go and removes it with --yes; a folder that is not there is named, not empty."""
    folder = server_folder / "backups"
    async with Stack(config(server_folder, sets=1, servers=1)) as stack:
        words = ["--folder", str(folder), "--data", str(stack.folder.path), "--json"]
        for _ in range(2):
            assert (await hongbao("backup", "take", "set-1", *words)).status == 0
        kept = BackupFolder(folder, "set-1")
        would = json.loads((await hongbao("backup", "prune", "set-1", "--keep", "1", *words)).out)
        assert (len(would["bases"]), would["kept"], would["removed"], len(kept.bases())) == (1, 1, False, 2)
        every = json.loads((await hongbao("backup", "prune", "--keep", "1", "--yes", *words)).out)["servers"]
        assert [(one["server"], len(one["bases"])) for one in every] == [("wallet", 0), ("set-1", 1)]
        assert len(kept.bases()) == 1
        nowhere = ["--folder", str(server_folder / "none"), "--data", str(stack.folder.path)]
        for command in ("list", "prune"):
            done = await hongbao("backup", command, *nowhere)
            assert (done.status, "there is no folder" in done.err) == (1, True)
        part = await hongbao("backup", "take", "all", "--folder", "/proc/none", "--data", str(stack.folder.path))
        assert part.status == 1
        assert part.out.count("cannot write to") == 2
