"""`hongbao rotate` on a running stack, as a DBA types it: what it says, what it refuses, and its exit status."""

import asyncio
import json
import signal
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import pytest

from rotation.lock import rotation_lock
from schema.day_tables import AHEAD_DAYS, DayTables
from sharding.ids import business_date
from tests import forks
from tests.faults.stack_fixtures import Running, running_stack
from tests.integration.rotation.fixtures import Books

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]

HONGBAO = "from cli.table import run; run()"
ROOT = Path(__file__).resolve().parents[2]


async def hongbao(running: Running, *words: str, env: dict[str, str] | None = None) -> tuple[int, Any, str]:
    """Run `hongbao rotate WORDS --json`; returns exit status, JSON (None if there is none) and standard error.

    The stack makes the coming days' tables on this loop, which must go on meanwhile: held up in the middle of a
    transaction it would hold the command up at the parents' locks.
    """
    done = await forks.hongbao("rotate", *words, "--data", str(running.data), "--json", env=env)
    return done.status, json.loads(done.out) if done.out else None, done.err


async def old_day(running: Running, day: date) -> Books:
    """Put a closed and paid day into the stack, in database 0 and 1, wherever these live."""
    owner = running.stack.postgres("set-1").dsn("hongbao_owner", "hongbao")
    await DayTables(owner, running.access.topology().databases_of("set-1")).ensure(day, ahead_days=0)
    books = Books()
    for _ in range(20):
        books.add(day)
    await books.write_set(running.stack.postgres("set-1").dsn("postgres", "hongbao"))
    await books.write_wallet(running.stack.postgres("wallet").dsn("postgres", "hongbao"))
    return books


async def test_the_command_on_a_running_stack(server_folder: Path) -> None:
    """Plan, refusals, run until detached, status; each with one JSON object and an exit status that is true."""
    async with running_stack(server_folder / "data", sets=1, servers=1) as running:
        today = business_date(datetime.now(UTC), running.access.topology().zone)
        day = today - timedelta(days=9)
        await old_day(running, day)
        status, told, said = await hongbao(running, "plan")
        (one,) = told["sets"]
        plans = {entry["date"]: entry for entry in one["days"]}
        assert plans[f"{day}"]["action"] == "rotate", said
        assert plans[f"{day}"]["obstacles"] == []
        assert plans[f"{today}"]["action"] == "wait"
        assert status == (0 if one["days_ahead"] >= 7 else 1)

        for words, code in (
            (("run", "--date", "2026-13-01"), "is no date"),
            (("run", "--date", "yesterday"), "is no date"),
            (("run", "--set", "set-9"), "no SET 'set-9'"),
            (("drop", "--date", f"{day}", "--reason", "why"), "--yes"),
            (("run", "--date", f"{day}", "--reason", ""), "reason"),
        ):
            status, told, said = await hongbao(running, *words)
            assert (status, told) == (1, None), words
            assert code in said, words
            assert "Traceback" not in said
        for words, code in (
            (("run", "--date", f"{today}"), "day_too_young"),
            (("run", "--date", "2020-01-01"), "day_unknown"),
            (("drop", "--date", f"{day}", "--yes", "--reason", "why"), "day_unknown"),
        ):
            status, told, said = await hongbao(running, *words)
            assert (status, told["holds"]) == (1, False), words
            assert [entry["error"]["code"] for entry in told["days"]] == [code]
        async with rotation_lock(running.access.set_dsn("set-1", "hongbao_owner")):
            status, told, _ = await hongbao(running, "run", "--date", f"{day}")
        assert (status, told["days"][0]["error"]["code"]) == (1, "rotation_busy")

        connection = await asyncpg.connect(running.stack.postgres("wallet").dsn("postgres", "hongbao"))
        await connection.execute(f"UPDATE account SET balance_fen = 3 WHERE name = 'escrow:{day:%y%m%d}:001'")
        status, told, said = await hongbao(running, "run")
        assert status == 1
        assert told["days"][0]["error"]["code"] == "day_unproven"
        assert told["days"][0]["error"]["obstacles"][0]["detail"] == "the escrow of slot 001 holds 3 fen"
        await connection.execute(f"UPDATE account SET balance_fen = 0 WHERE name = 'escrow:{day:%y%m%d}:001'")
        await connection.close()

        other = {"HONGBAO_ARCHIVE_KEY": "not the key that this stack was started with"}
        for words in (("run",), ("drop", "--date", f"{day}", "--yes", "--reason", "why")):
            status, told, said = await hongbao(running, *words, env=other)
            assert (status, told) == (1, None), words
            assert "started with another HONGBAO_ARCHIVE_KEY" in said

        status, told, said = await hongbao(running, "run", "--until", "detached", "--reason", "a test")
        assert status == 0, said
        assert set(told["days"][0]["states"].values()) == {"detached"}
        status, told, _ = await hongbao(running, "status")
        assert {entry["date"]: entry["state"] for entry in told["sets"][0]["days"]}[f"{day}"] == "detached"
        status, told, _ = await hongbao(running, "drop", "--date", f"{day}", "--yes", "--reason", "why")
        assert (status, told["days"][0]["error"]["code"]) == (1, "day_not_verified")


@pytest.mark.long
async def test_the_daemon_makes_tables_and_tells_how_many_days_ahead(server_folder: Path) -> None:
    """It prints where its metrics are, does a round at once, and leaves at SIGTERM."""
    async with running_stack(server_folder / "data", sets=1, servers=1) as running:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HONGBAO, "rotate", "--daemon", "--data", str(running.data),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=ROOT,
        )  # fmt: skip
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        want = f'hongbao_rotation_days_ahead{{set="set-1"}} {AHEAD_DAYS}.0'
        async with asyncio.timeout(60), aiohttp.ClientSession() as session:
            while True:
                async with session.get(url) as answer:
                    if want in await answer.text():
                        break
                await asyncio.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        _, said = await process.communicate()
        assert process.returncode == 0, said.decode()
        assert "Traceback" not in said.decode()
