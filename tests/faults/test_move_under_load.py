"""The live move and the command on the real thing: separate servers, opens at a rate that waits for nobody."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from loadtest.openloop.job import Job, run_job
from loadtest.openloop.opens import guests
from sharding.slots import database_name
from tests import forks
from tests.faults.stack_fixtures import Running, running_stack
from tests.sizes import sized

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]
RATE, SECONDS = sized(2_000, 500), 12


async def topology(running: Running, *words: str) -> tuple[int, Any, str]:
    """Run `hongbao topology`; returns exit status, the JSON object and what it said beside."""
    done = await forks.hongbao("topology", *words, "--data", str(running.data), "--json", timeout_s=120)
    return done.status, json.loads(done.out) if done.out.strip() else None, done.err


@pytest.mark.long
async def test_a_live_move_under_opens_at_a_rate(server_folder: Path, tmp_path: Path) -> None:
    """No open fails or is told `busy`; who won heard the truth, the stall is told, the books are clean."""
    async with running_stack(server_folder / "data", servers=1) as running:
        status, shown, _ = await topology(running, "show")
        assert status == 0
        held = {one["name"]: one["databases"] for one in shown["sets"]}
        name = held["set-1"][0]
        some = await guests(running.access, RATE * SECONDS)
        job = Job(running.access.gateway_url, some, RATE, SECONDS, 64)
        loading = asyncio.ensure_future(run_job(job, tmp_path))
        await asyncio.sleep(3)
        for _ in range(3):
            status, moved, said = await topology(running, "move", name, "--to", "set-2", "--live", "--yes")
            if "quieter hour" not in said:
                break  # else the move gave up, as other tests took the machine: nobody noticed, it is begun again
        assert status == 0, said
        finding, tally = await loading
        worst = {percent: round(tally.latency["open"].percentile(percent)) for percent in (50, 99, 99.9, 100)}
        sys.stdout.write(f"{json.dumps(moved)} at {finding.rate:.0f} opens/s, ms: {worst}\n")
        assert tally.failures == {}
        assert set(tally.results["open"]) == {"opened"}
        assert finding.answered == finding.sent >= RATE * SECONDS * 0.9
        assert moved["complete"]
        # The move gives up a longer one by itself; how long an open took beside it hangs on the machine and is printed.
        assert moved.get("stall_s", 0.0) <= 2.0
        report = await running.settled_audit()
        assert report.holds, report.violations
        assert report.sums.claims == len(tally.won) == finding.answered
        status, shown, _ = await topology(running, "show")
        assert shown["moves"] == []
        assert name in {one["name"]: one["databases"] for one in shown["sets"]}["set-2"]


@pytest.mark.long
async def test_the_command_on_a_running_stack(server_folder: Path) -> None:
    """Show, plan and move by time say what is; mistakes are one line and exit status 1; a restart keeps it all."""
    async with running_stack(server_folder / "data", servers=1) as running:
        _, shown, _ = await topology(running, "show")
        name = {one["name"]: one["databases"] for one in shown["sets"]}["set-1"][0]
        status, plan, _ = await topology(running, "plan", "--add", "set-3")
        assert (status, {one["to"] for one in plan["moves"]}) == (0, {"set-3"})
        assert 1 <= len(plan["moves"]) <= 6
        status, plan, _ = await topology(running, "plan", "--remove", "set-2")
        assert [one["database"] for one in plan["moves"]] == {one["name"]: one["databases"] for one in shown["sets"]}[
            "set-2"
        ]
        for words, says in (
            (("move", "db_99", "--to", "set-2"), "db_99"),
            (("move", name, "--to", "set-7"), "set-7"),
            (("move", name, "--to", "set-1"), "already"),
            (("move", name, "--to", "set-2", "--from-date", "2020-01-01"), "begun already"),
            (("plan", "--remove", "set-7"), "set-7"),
        ):
            status, nothing, said = await topology(running, *words)
            assert (status, nothing, said.count("\n")) == (1, None, 1), said
            assert says in said
        before = running.access.topology_path.read_bytes()
        status, shown, said = await topology(running, "move", name, "--to", "set-2")
        assert (status, shown["step"], shown["from"], shown["to"]) == (0, "not_begun", "set-1", "set-2"), said
        assert running.access.topology_path.read_bytes() == before
        status, begun, said = await topology(running, "move", name, "--to", "set-2", "--yes")
        assert (status, begun["step"], begun["complete"]) == (0, "given_up", False), said
        _, shown, _ = await topology(running, "show")
        assert [one["database"] for one in shown["moves"]] == [name]
        assert shown["moves"][0]["next"].startswith(f"handed over from {begun['valid_from']} on")
        status, _, said = await topology(running, "move", name, "--abort")
        assert status == 0, said
        assert (await topology(running, "show"))[1]["moves"] == []
        status, begun, said = await topology(running, "move", name, "--to", "set-2", "--yes")
        assert status == 0, said
        status, _, said = await topology(running, "move", name, "--finish")
        assert status == 1
        assert begun["valid_from"] in said
    async with running_stack(server_folder / "data", servers=1) as running:
        again = running.access.topology()
        assert str(again.moves[name][0].valid_from) == begun["valid_from"]
        assert again.set_for_database(int(name[3:])).name == "set-2"
        assert database_name(int(name[3:])) == name
        assert (await running.access.audit()).holds
