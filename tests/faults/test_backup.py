"""A SET is copied beside traffic, its log kept, and brought back to an instant: right at the end, behind before it."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from audit.report import Report
from backup.backups import Backups
from backup.logkeeper import LogKeeper
from backup.programs import Source
from backup.recovery_point import last_commit
from cli.table import main
from errors import Refused
from schema import roles
from tests.faults.stack_fixtures import Crowd, Running, running_stack

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]
SET = "set-1"


def backups(running: Running, folder: Path, name: str = SET) -> Backups:
    return Backups(source(running, name), folder)


def source(running: Running, name: str = SET) -> Source:
    return Source(name, running.access.superuser_dsn(name), running.access.passwords(name))


@asynccontextmanager
async def log_kept(running: Running, kept: Backups) -> AsyncIterator[None]:
    stop = asyncio.Event()
    keeper = LogKeeper(lambda: source(running), kept.folder, print)
    receiving = asyncio.ensure_future(keeper.receive(stop))
    try:
        yield
    finally:
        stop.set()
        await receiving


async def audited(running: Running, kept: Backups, into: Path, until: datetime | None = None) -> Report:
    server = await kept.restore(into, until)
    try:
        return await running.access.audit(instead={kept.source.name: server.dsn(roles.AUDIT, roles.DATABASE)})
    finally:
        await server.stop()


async def _written(running: Running) -> None:
    """Wait until the kept log holds all that was committed."""
    import asyncpg

    connection = await asyncpg.connect(running.access.superuser_dsn(SET))
    try:
        lsn = await connection.fetchval("SELECT pg_current_wal_lsn()")
        async with asyncio.timeout(20):
            while not await connection.fetchval(
                "SELECT bool_or(flush_lsn >= $1) FROM pg_stat_replication WHERE application_name = 'pg_receivewal'", lsn
            ):
                await asyncio.sleep(0.1)
    finally:
        await connection.close()


async def test_a_set_comes_back_to_the_fen_and_to_an_instant(server_folder: Path) -> None:
    """Restored to the end of its log the SET fits the wallet; to an earlier instant the audit names what is missing."""
    async with running_stack(server_folder / "data", sets=1, servers=1) as running:
        for sender in range(4):
            await running.deposit(f"sender-{sender}", 10_000_000)
        kept = backups(running, server_folder / "backups")
        with pytest.raises(Refused, match="take one first"):
            await kept.restore(server_folder / "early", None)
        async with log_kept(running, kept), Crowd(running, seed=7) as crowd, crowd.busy():
            await crowd.until(150)
            base = await kept.take()
            # As where the server's clients are on other hosts, and none on its own.
            (base.path / "pg_hba.conf").write_text("host all all 10.0.0.0/8 scram-sha-256\n")
            with pytest.raises(Refused, match="HONGBAO_PG_BIN=/usr/lib/postgresql/99/bin"):
                kept._programs.check_release(99)
            await crowd.until(150)
            while (middle := datetime.now(UTC)) <= base.taken_at:
                await crowd.until(20)
            await crowd.until(300)
            crowd.stop()
            report = await running.settled_audit()
            assert report.holds
            await _written(running)
        whole = await audited(running, kept, server_folder / "whole")
        assert whole.holds
        assert whole.sums == (await running.settled_audit()).sums
        ends = last_commit(server_folder / "whole" / "restore.log")
        assert ends is not None
        assert ends > middle
        behind = await audited(running, kept, server_folder / "middle", middle)
        reached = last_commit(server_folder / "middle" / "restore.log")
        assert reached is not None
        assert reached <= middle
        assert not behind.holds
        assert behind.sums.claims < whole.sums.claims
        with pytest.raises(Refused, match="take one first"):
            await kept.restore(server_folder / "before", base.taken_at - timedelta(seconds=1))
        with pytest.raises(Refused, match="ends before"):
            await kept.restore(server_folder / "after", datetime.now(UTC) + timedelta(days=1))
        with pytest.raises(Refused, match="not empty"):
            await kept.restore(server_folder / "whole", None)
        _lose_a_segment(kept)
        with pytest.raises(Refused, match="lacks"):
            await kept.restore(server_folder / "hole", None)
        again = await audited(running, kept, server_folder / "before-the-hole", middle)
        assert again.sums == behind.sums
        assert (await running.settled_audit()).holds


def _lose_a_segment(kept: Backups) -> None:
    """Make a hole: the newest segment is given the number after the next."""
    newest = max(kept.folder.wal.glob("0*"))
    name = newest.name.removesuffix(".partial")
    shutil.copyfile(newest, newest.with_name(f"{name[:16]}{int(name[16:], 16) + 2:08X}"))


async def test_the_commands_tell_it_in_words_and_json(server_folder: Path) -> None:
    """Taken, listed and looked at by the commands; bad words change nothing."""
    async with running_stack(server_folder / "data", sets=1, servers=1) as running:
        await running.deposit("sender-0", 1_000_000)
        async with Crowd(running, seed=3) as crowd, crowd.busy(people=8, senders=1):
            await crowd.until(60)
            hot = await _hongbao("dba", "hot", "--json", data=running.data)
        assert hot["hot"][0]["opened"] > 0
        assert hot["hot"][0]["table"].startswith("db_0")
        seen = await _hongbao("dba", "--json", data=running.data)
        (one,) = seen["sets"]
        assert one["catalog"]["leaves"] >= 4 * 20 * 2
        assert "hongbao_setnode" in {row["role"] for row in one["connections"]}
        assert one["statements"]
        assert one["next_swap"] is not None
        folder = str(server_folder / "backups")
        taken = await _hongbao("backup", "take", SET, "--folder", folder, "--json", data=running.data)
        listed = await _hongbao("backup", "list", SET, "--folder", folder, "--json", data=running.data)
        assert [base["path"] for base in listed["bases"]] == [taken["path"]]
        assert (listed["log"], listed["behind_bytes"]) == ("none", None)
        kept = await _hongbao("retention", "show", "--folder", folder, "--json", data=running.data)
        assert {one["kind"]: one["items"] for one in kept["kinds"]} == {
            "backups of set-1": 1, "backups of wallet": 0, "archive": 0, "proofs of days": 0, "journals": 0,
            "logs of parts that are gone": 0, "dead letters of set-1": 0,
        }  # fmt: skip
        gone = await _hongbao("retention", "apply", "--yes", "--folder", folder, "--json", data=running.data)
        assert (gone["removed"], gone["past_bytes"]) == (True, 0)
        # Once a log was kept, one that nobody keeps is told.
        (server_folder / "backups" / SET / "wal" / "000000010000000000000001").touch()
        words = ["backup", "list", SET, "--folder", folder, "--data", str(running.data)]
        lost = await asyncio.to_thread(CliRunner().invoke, main, words)
        assert lost.exit_code == 1
        assert "--anew" in lost.output
        for words in (
            ["backup", "take", "set-9", "--folder", folder],
            ["backup", "restore", SET, "--folder", folder, "--into", folder, "--until", "yesterday"],
            ["backup", "restore", SET, "--folder", folder + "-none", "--into", str(server_folder / "new")],
            ["dba", "--set", "set-9"],
        ):
            done = await asyncio.to_thread(CliRunner().invoke, main, [*words, "--data", str(running.data)])
            assert done.exit_code == 1
            assert "error:" in done.output
        assert not (server_folder / "new").exists()
        shown = await asyncio.to_thread(CliRunner().invoke, main, ["dba", "--data", str(running.data)])
        assert shown.exit_code == 0
        assert "lock slots" in shown.output


@pytest.mark.long
async def test_a_set_that_is_away_is_told_beside_the_others(server_folder: Path) -> None:
    """One SET's Postgres is away: the others are looked at, the one has its error, and the exit status is 1."""
    async with running_stack(server_folder / "data", sets=2, servers=1) as running:
        running.stack.kill("postgres-set-2", stay_dead=True)
        words = ["dba", "--data", str(running.data)]
        done = await asyncio.to_thread(CliRunner().invoke, main, [*words, "--json"])
        assert done.exit_code == 1
        one, other = json.loads(done.stdout.splitlines()[-1])["sets"]
        assert one["catalog"]["leaves"] > 0
        assert (other["set"], other["code"]) == ("set-2", "database_unavailable")
        shown = await asyncio.to_thread(CliRunner().invoke, main, words)
        assert shown.exit_code == 1
        assert "lock slots" in shown.output
        assert "away: " in shown.output


async def _hongbao(*words: str, data: Path) -> dict[str, object]:
    done = await asyncio.to_thread(CliRunner().invoke, main, [*words, "--data", str(data)])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout.splitlines()[-1])
