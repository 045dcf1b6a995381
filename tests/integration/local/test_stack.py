import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from errors import Refused, Unavailable
from local import running
from local.config import StackConfig
from local.stack import Stack
from sharding.topology import change, load
from sharding.topology.changes import successor

pytestmark = pytest.mark.faults

STUB = "tests.integration.local.stub_service"
BUSY_S = 20.0
"""A stop takes 1 s and a second start 3 s where nothing else runs; here many other tests do."""


def config(folder: Path, said: list[str] | None = None, **more: object) -> StackConfig:
    said = [] if said is None else said
    modules = dict.fromkeys(("wallet", "setnode", "gateway"), STUB)
    few = {"slots": 40, "ahead_days": 1, **more}
    return StackConfig(data=folder / "data", port=0, modules=modules, notify=said.append, **few)


def told(url: str) -> dict[str, str]:
    with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - our own loopback address
        return json.loads(answer.read())


async def until(holds: Callable[[], bool], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.02)


def pids(stack: Stack) -> dict[str, int]:
    return {part.name: part.pid for part in running.load(stack.folder.running).parts}


async def test_a_stack_comes_up_keeps_its_data_and_leaves_nothing(server_folder: Path) -> None:
    """All parts are ready on entry, gone on exit, and a second start finds data and topology again."""
    async with Stack(config(server_folder)) as stack:
        first = pids(stack)
        assert set(first) == {
            "gateway-1", "wallet", "set-1-a", "set-1-b", "set-2-a", "set-2-b",
            "memcached", "postgres-wallet", "postgres-set-1", "postgres-set-2",
        }  # fmt: skip
        env = await asyncio.to_thread(told, stack.gateway_url)
        assert env["HONGBAO_TOKEN_KEY"]
        connection = await asyncpg.connect(stack.postgres("set-1").dsn("hongbao_owner", "hongbao"))
        await connection.execute("CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)")
        await connection.close()
        assert stack.folder.running.stat().st_mode & 0o777 == 0o600
        assert stack.folder.secrets.stat().st_mode & 0o777 == 0o600
        begun = time.monotonic()
    assert time.monotonic() - begun < BUSY_S
    assert not any(Path(f"/proc/{pid}").exists() for pid in first.values())
    assert not stack.folder.running.exists()
    begun = time.monotonic()
    async with Stack(config(server_folder)) as stack:
        assert time.monotonic() - begun < BUSY_S
        connection = await asyncpg.connect(stack.postgres("set-1").dsn("hongbao_owner", "hongbao"))
        assert await connection.fetchval("SELECT n FROM kept") == 7
        await connection.close()
        assert json.loads(stack.folder.topology.read_text())["version"] == 2
        assert (await asyncio.to_thread(told, stack.gateway_url))["HONGBAO_TOKEN_KEY"] == env["HONGBAO_TOKEN_KEY"]


async def test_a_killed_part_comes_back_at_its_address(server_folder: Path) -> None:
    """A crashed process, Postgres or memcached is started again; one told to stay dead waits for `restart`."""
    said: list[str] = []
    killed = ("set-1-a", "postgres-set-1", "memcached")
    async with Stack(config(server_folder, said, sets=1, servers=1)) as stack:
        before = pids(stack)
        dsn = stack.postgres("set-1").dsn()
        for name in killed:
            stack.kill(name)
        await until(lambda: all(any(line.startswith(f"{name} is back") for line in said) for name in killed))
        assert all(pids(stack)[name] != before[name] for name in killed)
        assert any("set-1-a ended (killed by signal 9)" in line for line in said)
        connection = await asyncpg.connect(dsn)
        await connection.close()
        stack.kill("wallet", stay_dead=True)
        await asyncio.sleep(0.5)
        assert pids(stack)["wallet"] == before["wallet"]
        await stack.restart("wallet")
        assert pids(stack)["wallet"] != before["wallet"]


async def test_a_second_stack_on_one_data_folder_is_refused(server_folder: Path) -> None:
    """The second `up` is one clear line that names the first one's process; the first goes on."""
    async with Stack(config(server_folder, sets=1, servers=1)) as stack:
        with pytest.raises(Refused, match="already up") as caught:
            async with Stack(config(server_folder, sets=1, servers=1)):
                pass
        assert caught.value.code == "already_up"
        assert await asyncio.to_thread(told, stack.gateway_url)


async def test_a_part_that_does_not_start_is_shown_with_its_log(server_folder: Path) -> None:
    """The error names the part and its last log lines, and nothing is left running."""
    stack = Stack(config(server_folder, sets=1, servers=1, env={"STUB_FAILS": "set-1-a"}))
    with pytest.raises(Unavailable, match=r"set-1-a ended with 1(.|\n)*told to fail"):
        async with stack:
            pass
    assert not any(part.running for part in stack._parts())


async def test_money_starts_though_the_operators_view_does_not(server_folder: Path) -> None:
    """What only shows stops nothing that moves money; it is said, and the supervisor tries on."""
    said: list[str] = []
    modules = {**dict.fromkeys(("wallet", "setnode", "gateway"), STUB), "ops": "tests.no_such_module"}
    async with Stack(replace(config(server_folder, said), ops=True, modules=modules)) as stack:
        assert await asyncio.to_thread(told, stack.gateway_url)
        assert any("everything else starts, ops does not" in line for line in said), said
        await until(lambda: any("ops ended" in line for line in said))


async def test_a_set_comes_empty_and_goes_empty(server_folder: Path) -> None:
    """A new SET holds nothing until databases are moved; one that holds some is not left out; an empty one may go."""
    async with Stack(config(server_folder, sets=1, servers=1)) as stack:
        before = load(stack.folder.topology)
    async with Stack(config(server_folder, sets=2, servers=1)) as stack:
        grown = load(stack.folder.topology)
    assert [one.weight for one in grown.sets] == [1, 0]
    assert grown.databases_of("set-1") == before.databases_of("set-1")
    assert grown.databases_of("set-2") == []
    assert grown.epoch_of == before.epoch_of
    change(stack.folder.topology, lambda old: successor(old, pins={"db_03": "set-2"}))
    with pytest.raises(Refused, match="set-2 holds 1 database, db_03 first"):
        async with Stack(config(server_folder, sets=1, servers=1)):
            pass
    change(stack.folder.topology, lambda old: successor(old, pins={}))
    async with Stack(config(server_folder, sets=1, servers=1)) as stack:
        assert [one.name for one in load(stack.folder.topology).sets] == ["set-1"]


PARENT = """
import asyncio, sys
from pathlib import Path
from local.config import StackConfig
from local.stack import Stack
from runtime import logs

logs.set_up("test", "warning")

async def main():
    modules = dict.fromkeys(("wallet", "setnode", "gateway"), "tests.integration.local.stub_service")
    few = {"sets": 1, "slots": 20, "ahead_days": 1}
    async with Stack(StackConfig(data=Path(sys.argv[1]), port=0, modules=modules, **few)) as stack:
        print("up", flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_nothing_outlives_a_killed_stack(server_folder: Path) -> None:
    """After kill -9 of the stack's process every part is gone."""
    folder = server_folder / "data"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(folder)], stdout=subprocess.PIPE)  # noqa: ASYNC220
    assert parent.stdout is not None
    with parent.stdout:
        assert await asyncio.to_thread(parent.stdout.readline) == b"up\n"
        parts = running.load(folder / "running.json").parts
        parent.kill()
        parent.wait(10)
    await until(lambda: not any(Path(f"/proc/{part.pid}").exists() for part in parts))
    with pytest.raises(Refused, match="was killed"):
        running.load(folder / "running.json")


async def test_a_gateway_that_does_not_start_replaces_none(server_folder: Path) -> None:
    """In a restart the old one serves until the new one does; a broken release leaves it as it was."""
    async with Stack(config(server_folder)) as stack:
        (gateway,) = stack._gateways
        before = gateway.pid
        sound = gateway.spec
        gateway.spec = replace(sound, env={**sound.env, "STUB_FAILS": "-"})
        with pytest.raises(Unavailable, match="the stub was told to fail"):
            await stack.restart("gateway-1")
        assert gateway.pid == before
        assert await asyncio.to_thread(told, stack.gateway_url)
        gateway.spec = sound
        await stack.restart("gateway-1")
        assert gateway.pid != before
        assert await asyncio.to_thread(told, stack.gateway_url)
