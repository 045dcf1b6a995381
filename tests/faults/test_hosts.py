"""A region of hosts: its faults are those of hosts, nothing of it stays, and a short drill loses nothing."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from errors import Refused
from hosts.ground import RECORDS, Ground, ground
from hosts.host import Host, lay_out
from hosts.shell import check_machine, inside, ip_json, namespaces, processes_in
from hosts.subnet import Subnet, free_subnet

# In the worker of the browser, which gives up what it loads when an interface comes or goes (ERR_NETWORK_CHANGED).
pytestmark = [pytest.mark.faults, pytest.mark.timeout(420), pytest.mark.xdist_group("chromium")]
WAIT_S = 20.0
ANSWER_S = 1.0
PORT = 7

_KILLED = """
import asyncio, subprocess, sys
from pathlib import Path
from hosts.ground import ground
from hosts.host import lay_out
from hosts.shell import inside
from hosts.subnet import free_subnet

async def main():
    async with ground(Path(sys.argv[1])) as mine:
        hosts = await lay_out(["one", "two"], mine, await free_subnet())
        # As Postgres does under Patroni, it leaves its parent.
        subprocess.run([*inside(hosts["one"].namespace), "sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!"])
        print(mine.prefix, mine.folder, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
async def _machine() -> None:
    try:
        await check_machine()
    except Refused as refusal:
        pytest.skip(refusal.detail)


@contextlib.asynccontextmanager
async def hosts_of(*names: str) -> AsyncIterator[tuple[Ground, Subnet, dict[str, Host]]]:
    async with ground(None) as mine:
        subnet = await free_subnet()
        yield mine, subnet, await lay_out(names, mine, subnet)


async def heard(host: Host, address: str) -> str:
    """Return what a connection from a host to a port on which nobody listens comes to: `refused`, or `silence`."""
    probe = f"exec 3<>/dev/tcp/{address}/{PORT}"
    process = await asyncio.create_subprocess_exec(
        *inside(host.namespace), "timeout", str(ANSWER_S), "bash", "-c", probe,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, said = await process.communicate()
    return "refused" if b"refused" in said else "silence"


async def test_cables_and_walls_between_hosts() -> None:
    """A pulled cable cuts off one network alone, a wall two hosts alone, both in silence; both can be taken back."""
    async with hosts_of("one", "two", "three") as (_, subnet, hosts):
        one, two, three = hosts.values()
        assert {await heard(one, address) for address in (two.front, two.back, subnet.ours)} == {"refused"}
        await one.pull("back")
        assert [await heard(one, address) for address in (two.back, two.front)] == ["silence", "refused"]
        await one.plug("back")
        await one.part_from(two)
        assert [await heard(one, two.front), await heard(two, one.front)] == ["silence", "silence"]
        assert [await heard(one, three.front), await heard(one, two.back)] == ["refused", "refused"]
        await one.join(two)
        assert [await heard(one, two.front), await heard(one, two.back)] == ["refused", "refused"]


async def test_a_lost_host_is_silent_and_a_frozen_one_goes_on() -> None:
    """All its processes stop, or end; those of others do not."""
    async with hosts_of("one", "two") as (_, _, hosts):
        one, two = hosts.values()
        sleepers = [
            await asyncio.create_subprocess_exec(*inside(host.namespace), "sleep", "600") for host in hosts.values()
        ]
        async with asyncio.timeout(WAIT_S):
            while not (await processes_in(one.namespace) and await processes_in(two.namespace)):
                await asyncio.sleep(0.01)
        await one.freeze()
        assert [_state(one.pid) == "T" for one in sleepers] == [True, False]
        await one.thaw()
        assert "T" not in [_state(one.pid) for one in sleepers]
        await one.lose()
        assert await asyncio.wait_for(sleepers[0].wait(), WAIT_S) == -signal.SIGKILL
        assert _state(sleepers[1].pid) in "RS"
        assert await heard(two, one.front) == "silence"
        await two.end()
        assert await asyncio.wait_for(sleepers[1].wait(), WAIT_S) == -signal.SIGKILL


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def test_what_a_killed_region_leaves_is_cleaned_away_by_the_next(tmp_path: Path) -> None:
    """Namespaces, links, folder and processes, also those that have left their parent; another region's are not."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _KILLED, str(tmp_path), stdout=asyncio.subprocess.PIPE, env=_env()
    )
    assert process.stdout is not None
    sleeper = int(await asyncio.wait_for(process.stdout.readline(), WAIT_S))
    prefix, folder = (await asyncio.wait_for(process.stdout.readline(), WAIT_S)).decode().split()
    async with hosts_of("other") as (mine, _, hosts):
        assert mine.prefix != prefix
        assert Path(folder).exists()
        process.kill()
        await process.wait()
        assert Path(f"/proc/{sleeper}").exists()
        async with ground(None), asyncio.timeout(WAIT_S):
            # Another region that starts at the same time may be at it.
            while Path(folder).exists():
                await asyncio.sleep(0.01)
            assert not [name for name in await namespaces() if name.startswith(f"{prefix}-one")]
            assert hosts["other"].namespace in await namespaces()
            while Path(f"/proc/{sleeper}").exists():
                await asyncio.sleep(0.01)
    assert not [one for one in await ip_json("link", "show") if one["ifname"].startswith((mine.prefix, prefix))]
    assert not (RECORDS / f"{mine.prefix.removeprefix('hbr')}.json").exists()


async def test_only_root_makes_a_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody else is told so before anything is done."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Refused) as told:
        await check_machine()
    assert told.value.code == "hosts_root"
    assert "root" in told.value.detail


async def test_a_short_drill_loses_nothing(server_folder: Path) -> None:
    """A primary lost, a setnode lost, a new version: every answer is a row, nobody was told two things, money adds up.

    How long a failover takes the drill holds by itself on a quiet machine; here its figures only must be there.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cli", "hosts", "drill", "--short", "--json", "--folder", str(server_folder),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=_env(),
    )  # fmt: skip
    try:
        out, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if not out and (b"cannot be installed" in said or b"could not be fetched" in said):
        pytest.skip("etcd, nginx or Patroni cannot be fetched here")
    assert out, said.decode()
    found = json.loads(out)
    assert [one["error"] for one in found["steps"]] == ["", "", ""]
    for name in ("missing", "wrong", "unanswered", "audit_violations", "upgrade_failed"):
        assert found[name] == 0, (name, found)
    assert found["acknowledged"] >= 1_000
    assert found["failover_s"] > 0
    assert not await _regions_of(process.pid)


async def _regions_of(pid: int) -> list[Path]:
    return [one for one in RECORDS.glob("*.json") if json.loads(one.read_bytes())["pid"] == pid]


def _env() -> dict[str, str]:
    root = Path(__file__).parents[2]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH", "")]))}
