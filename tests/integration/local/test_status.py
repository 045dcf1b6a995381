"""`hongbao status`, `stop` and `logs` on a real stack of stub services, and what of it stays when it is down."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from doctor.limits import CHECK_S, PLACE_S
from errors import Refused
from installation import inventory
from installation.finding import find
from local import running
from local.stack import Stack
from machine import ports
from schema.day_tables import AHEAD_DAYS
from sharding.topology import change
from sharding.topology.changes import paused
from tests import forks
from tests.integration.local.test_stack import config, pids, until
from tests.integration.local.test_up import running_under, start

pytestmark = pytest.mark.faults


async def hongbao(folder: Path, *words: str) -> forks.Ended:
    """Run the command in a process of its own: what the stack of this one logs is not among its words."""
    return await forks.hongbao(*words, "--data", str(folder / "data"))


async def status(folder: Path) -> tuple[int, Any]:
    done = await hongbao(folder, "status", "--json")
    return done.status, json.loads(done.out)


async def doctor(folder: Path) -> tuple[int, list[dict[str, str]], float]:
    """Return exit status, findings and seconds."""
    done = await hongbao(folder, "doctor", "--json")
    told = json.loads(done.out)
    assert told["holds"] is (done.status == 0)
    return done.status, told["findings"], told["seconds"]


async def test_status_says_what_answers_and_what_is_out_of_service(server_folder: Path) -> None:
    """Every part with its address, starts and answer; a paused SET; days ahead; exit status 1 when one is away.

    `doctor` finds the same on the same stack, with what to do, also beside a part that is frozen.
    """
    async with Stack(config(server_folder, sets=1, servers=1, ahead_days=1)) as stack:
        await until((server_folder / "data" / "running.json").exists)
        code, told = await status(server_folder)
        assert (code, told["up"], told["gateway_url"]) == (0, True, stack.gateway_url)
        assert {one["name"] for one in told["parts"]} == {
            "gateway-1", "set-1-a", "wallet", "memcached", "postgres-set-1", "postgres-wallet",
        }  # fmt: skip
        assert all(one["answers"] and one["pid"] and one["restarts"] == 0 for one in told["parts"])
        (one,) = told["sets"]
        assert (one["name"], one["paused"], one["drained"]) == ("set-1", False, [])
        assert 0 <= one["days_ahead"] <= AHEAD_DAYS

        code, well, _ = await doctor(server_folder)
        # A test's stack has few days ahead; all else is well, or optional.
        assert (code, {one["check"] for one in well if one["level"] == "wrong"}) == (1, {"days"}), well
        assert {one["what"] for one in well} >= {"6 parts answer", "no payout of set-1 is stuck"}
        assert next(one for one in well if one["check"] == "backup_log")["level"] == "note"

        change(stack.folder.topology, lambda old: paused(old, "set-1", on=True))
        stack.kill("memcached")
        await until(lambda: running.load(stack.folder.running).parts[-3].restarts == 1)
        code, told = await status(server_folder)
        assert (code, told["sets"][0]["paused"]) == (0, True)
        assert {one["name"]: one["restarts"] for one in told["parts"]}["memcached"] == 1

        stack.kill("postgres-set-1", stay_dead=True)
        stack.kill("set-1-a", stay_dead=True)
        await until(lambda: not Path(f"/proc/{stack.postgres('set-1').pid}").exists())
        code, told = await status(server_folder)
        assert (code, told["up"]) == (1, False)
        assert {one["name"] for one in told["parts"] if not one["answers"]} == {"postgres-set-1", "set-1-a"}
        assert told["sets"][0]["days_ahead"] is None
        os.kill(pids(stack)["wallet"], signal.SIGSTOP)
        code, ill, seconds = await doctor(server_folder)
        os.kill(pids(stack)["wallet"], signal.SIGCONT)
        wrong = {one["subject"]: one for one in ill if one["check"] == "parts"}
        assert (code, wrong.keys()) == (1, {"postgres-set-1", "set-1-a", "wallet"})
        assert "does not run" in wrong["set-1-a"]["what"]
        assert "runs and does not answer" in wrong["wallet"]["what"]
        assert wrong["wallet"]["do"].startswith("./run logs wallet")
        assert "set-1 is paused" in next(one["what"] for one in ill if one["check"] == "closed")
        assert seconds < PLACE_S + CHECK_S + 1
        shown = await hongbao(server_folder, "status")
        assert (shown.status, "paused" in shown.out, "does not answer" in shown.out) == (1, True, True)

        said = await hongbao(server_folder, "logs")
        assert "memcached ended (killed by signal 9)" in said.out
        assert all(json.loads(line)["timestamp"] for line in said.out.splitlines())
    _, stopped, _ = await doctor(server_folder)
    assert {one["check"]: one["level"] for one in stopped}["parts"] == "note"
    gone = await hongbao(server_folder, "status")
    assert (gone.status, "nothing runs on" in gone.err) == (1, True)
    assert "memcached is back" in (await hongbao(server_folder, "logs", "supervisor")).out
    assert " UTC info    memcached is back" in (await hongbao(server_folder, "logs", "--text")).out
    unknown = await hongbao(server_folder, "logs", "set-9-z")
    assert (unknown.status, "there are gateway-1, memcached" in unknown.err) == (1, True)


def forget_ports() -> None:
    """Give back what this process has reserved, as its end does: another one starts next."""
    while ports._held:
        os.close(ports._held.popitem()[1])
    ports._reserved.clear()


async def test_parts_keep_their_ports_unless_another_took_one(server_folder: Path) -> None:
    """The second start listens where the first did; a port that is taken meanwhile is replaced, and only that one."""

    def addresses(stack: Stack) -> dict[str, str]:
        return {
            part.name: part.address for part in running.load(stack.folder.running).parts if part.name[:7] != "gateway"
        }

    async with Stack(config(server_folder, sets=1, servers=1)) as stack:
        first = addresses(stack)
    forget_ports()
    async with Stack(config(server_folder, sets=1, servers=1)) as stack:
        assert addresses(stack) == first
    forget_ports()
    host, _, port = first["wallet"].rpartition(":")
    taker = await asyncio.start_server(lambda *_: None, host, int(port))
    async with taker, Stack(config(server_folder, sets=1, servers=1)) as stack:
        second = addresses(stack)
    assert {name for name in first if second[name] != first[name]} == {"wallet"}


async def test_what_is_installed_is_known_while_nothing_runs(server_folder: Path) -> None:
    """The inventory stays: databases by identity and role, without a password; commands say what does not answer."""
    async with Stack(config(server_folder, sets=1, servers=1)) as stack:
        dsn = stack.postgres("set-1").dsn("hongbao_owner", "hongbao")
        identity = inventory.load(stack.folder.inventory).clusters["set-1"].system_identifier
    path = server_folder / "data" / "installation.toml"
    assert path.stat().st_mode & 0o777 == 0o600
    found = inventory.load(path)
    assert set(found.clusters) == {"set-1", "wallet"}
    assert int(identity) > 0
    secrets = json.loads((server_folder / "data" / "secrets.json").read_text())
    passwords = [word for roles in secrets["postgres"].values() for word in roles.values()]
    assert not any(word in path.read_text() for word in passwords)
    assert find(server_folder / "data").set_dsn("set-1", "hongbao_owner") == dsn
    with pytest.raises(Refused, match="there is no SET 'set-9'"):
        find(server_folder / "data").set_dsn("set-9")
    audit = await hongbao(server_folder, "audit")
    assert (audit.status, "does not answer" in audit.err, "is it up? See ./run status" in audit.err) == (1, True, True)
    assert (await hongbao(server_folder, "query", "SELECT 1 AS one")).status == 0
    listed = await hongbao(server_folder, "backup", "list", "set-1", "--folder", str(server_folder), "--json")
    assert (listed.status, json.loads(listed.out)["log"]) == (1, "unknown"), "there is no copy"


async def test_stop_ends_everything_from_another_terminal(server_folder: Path) -> None:
    """`stop` returns when all processes are gone, `up` ends as after Ctrl-C; without a stack it says so."""
    process = await asyncio.to_thread(start, server_folder / "data")
    assert process.stdout is not None
    assert (await asyncio.to_thread(process.stdout.readline)).startswith("http://")
    waiting = asyncio.ensure_future(asyncio.to_thread(process.communicate, timeout=20))
    done = await hongbao(server_folder, "stop", "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["pid"] == process.pid
    _, said = await waiting
    assert (process.returncode, "all data is kept" in said) == (0, True)
    assert not running_under(server_folder)
    again = await hongbao(server_folder, "stop")
    assert (again.status, "so there is nothing to stop" in again.err) == (1, True)
