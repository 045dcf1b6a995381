"""A folder that was there before and is not there now: the start says so by name and makes nothing in its place."""

import grp
import json
import os
from pathlib import Path

import asyncpg
import pytest

from errors import Refused
from installation import inventory
from installation.keys import KEYS, REPLACEABLE
from local.stack import Stack
from runtime.files import write_private
from tests.integration.local.test_stack import config, pids, until

pytestmark = [pytest.mark.faults, pytest.mark.long]


async def started_once(folder: Path, **more: object) -> Path:
    async with Stack(config(folder, sets=1, servers=1, **more)):
        pass
    return folder / "data"


async def refusal(folder: Path) -> str:
    stack = Stack(config(folder, sets=1, servers=1))
    with pytest.raises(Refused) as caught:
        async with stack:
            pass
    assert not any(part.running for part in stack._parts())
    return caught.value.code


@pytest.mark.parametrize("server", ["set-1", "wallet"])
async def test_a_missing_cluster_is_refused_and_not_made_anew(server_folder: Path, server: str) -> None:
    """With its disk unmounted a start ends by name and makes nothing; with the disk back it starts as before."""
    data = await started_once(server_folder)
    home, aside = data / "postgres" / server, data / "postgres" / "aside"
    before = inventory.load(data / "installation.toml").clusters
    home.rename(aside)
    assert await refusal(server_folder) == "cluster_missing"
    assert not home.exists()
    home.mkdir()  # as an empty mount point
    assert await refusal(server_folder) == "cluster_missing"
    assert list(home.iterdir()) == []
    home.rmdir()
    aside.rename(home)
    async with Stack(config(server_folder, sets=1, servers=1)):
        after = inventory.load(data / "installation.toml").clusters
    assert [one.system_identifier for one in after.values()] == [one.system_identifier for one in before.values()]


async def test_a_missing_cluster_is_known_without_the_inventory(server_folder: Path) -> None:
    """The topology file alone says that there was a SET: with the inventory lost, too, nothing is made."""
    data = await started_once(server_folder)
    (data / "installation.toml").unlink()
    (data / "postgres" / "set-1").rename(data / "postgres" / "aside")
    assert await refusal(server_folder) == "cluster_missing"
    (data / "postgres" / "aside").rename(data / "postgres" / "set-1")
    await started_once(server_folder)


@pytest.mark.usefixtures("own_initdb")
async def test_a_cluster_of_another_identity_is_refused(server_folder: Path) -> None:
    """Two folders mounted the wrong way round are told apart by what initdb gave them; `--new-cluster` takes one."""
    data = await started_once(server_folder)
    one, other, aside = (data / "postgres" / name for name in ("set-1", "wallet", "aside"))
    for source, target in ((one, aside), (other, one), (aside, other)):
        source.rename(target)
    assert await refusal(server_folder) == "cluster_differs"
    for source, target in ((one, aside), (other, one), (aside, other)):
        source.rename(target)
    await started_once(server_folder)


async def test_an_operator_may_give_a_cluster_up(server_folder: Path) -> None:
    """`--new-cluster set-1` makes an empty one for a SET that is lost for good; a name that is none is refused."""
    data = await started_once(server_folder)
    (data / "postgres" / "set-1").rename(data / "postgres" / "aside")
    await started_once(server_folder, new_clusters=frozenset({"set-1"}))
    assert (data / "postgres" / "set-1" / "PG_VERSION").exists()
    with pytest.raises(Refused, match="there is no set-7"):
        config(server_folder, new_clusters=frozenset({"set-7"}))


async def test_a_cluster_that_goes_missing_while_it_serves_is_not_made_anew(server_folder: Path) -> None:
    """The supervisor, too, refuses an empty folder; it says so, and takes the cluster when it is back."""
    said: list[str] = []
    async with Stack(config(server_folder, said, sets=1, servers=1)) as stack:
        home = stack.folder.postgres("set-1")
        home.rename(home.with_name("aside"))
        stack.kill("postgres-set-1")
        await until(lambda: any("postgres-set-1 did not start: the cluster of set-1" in line for line in said))
        assert not home.exists()
        home.with_name("aside").rename(home)
        await until(lambda: any("postgres-set-1 is back" in line for line in said))


async def test_lost_secrets_are_refused_before_anything_is_written(server_folder: Path) -> None:
    """Where clusters stand, new keys would make archives and tokens worthless: the start says which file is missing."""
    data = await started_once(server_folder)
    kept = (data / "secrets.json").read_bytes()
    (data / "secrets.json").unlink()
    assert await refusal(server_folder) == "secrets_missing"
    assert not (data / "secrets.json").exists()
    (data / "secrets.json").write_text('{"keys": {}}')
    assert await refusal(server_folder) == "secrets_missing"
    (data / "secrets.json").write_bytes(kept)
    await started_once(server_folder)


async def test_one_lost_key_is_refused_by_name(server_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a cluster only keys that protect nothing stored are made anew; each of the others is asked for by name.

    A key that the environment gives is not lost, and no other is made in its place.
    """
    data = await started_once(server_folder)
    kept = json.loads((data / "secrets.json").read_text())
    for name in sorted(set(KEYS) - set(REPLACEABLE)):
        spoilt = {**kept, "keys": {one: key for one, key in kept["keys"].items() if one != name}}
        write_private(data / "secrets.json", spoilt)
        with pytest.raises(Refused, match=name) as caught:
            async with Stack(config(server_folder, sets=1, servers=1)):
                pass
        assert caught.value.code == "secrets_missing"
        assert json.loads((data / "secrets.json").read_text()) == spoilt
    lacks = (*REPLACEABLE, "TOKEN_KEY")
    rest = {one: key for one, key in kept["keys"].items() if one not in lacks}
    write_private(data / "secrets.json", {**kept, "keys": rest})
    monkeypatch.setenv("HONGBAO_TOKEN_KEY", kept["keys"]["TOKEN_KEY"])
    await started_once(server_folder)
    found = json.loads((data / "secrets.json").read_text())["keys"]
    assert found == {**rest, **{name: found[name] for name in REPLACEABLE}}
    assert found["LINK_SECRET"] != kept["keys"]["LINK_SECRET"]


async def test_what_we_make_is_closed_whatever_the_umask(server_folder: Path) -> None:
    """Under umask 000 no folder of ours is open to others, and a folder that was there keeps its mode."""
    data = server_folder / "data"
    data.mkdir(mode=0o755)
    data.chmod(0o755)
    before = os.umask(0)
    try:
        await started_once(server_folder)
    finally:
        os.umask(before)
    assert data.stat().st_mode & 0o777 == 0o755
    for path in data.rglob("*"):
        if "software" not in path.parts:  # programs
            assert path.is_symlink() or path.stat().st_mode & 0o077 == 0, path
    assert not [path for path in data.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o002]


async def test_a_folder_that_others_may_write_to_is_refused(server_folder: Path) -> None:
    """`--data /tmp` changes nothing of /tmp: neither its mode nor what is in it."""
    data = server_folder / "data"
    data.mkdir()
    data.chmod(0o1777)
    assert await refusal(server_folder) == "data_folder_open"
    assert data.stat().st_mode & 0o7777 == 0o1777
    assert list(data.iterdir()) == []


async def test_a_folder_that_a_group_may_write_to_is_refused(
    server_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the group that is named."""
    data = server_folder / "data"
    data.mkdir()
    data.chmod(0o770)
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group(("staff", "x", gid, ["somebody"])))
    assert await refusal(server_folder) == "data_folder_open"
    assert list(data.iterdir()) == []


async def test_a_log_that_is_a_symbolic_link_is_not_followed(server_folder: Path) -> None:
    """Who could put a link in the place of a log cannot make us write to another file."""
    data = await started_once(server_folder)
    victim = server_folder / "victim"
    victim.write_text("mine")
    log = data / "logs" / "set-1-a.log"
    log.unlink()
    log.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        await started_once(server_folder)
    assert victim.read_text() == "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root chooses accounts")
async def test_memcached_may_not_read_the_clusters(server_folder: Path) -> None:
    """Where root runs the stack, memcached has an account of its own."""
    async with Stack(config(server_folder, sets=1, servers=1)) as stack:
        owners = {name: Path(f"/proc/{pid}").stat().st_uid for name, pid in pids(stack).items()}
    assert owners["memcached"] not in {0, owners["postgres-set-1"]}


async def test_a_start_sets_sweepers_back_to_a_restored_wallet(server_folder: Path) -> None:
    """A sweeper that has seen more funds than the wallet has is set back before any server runs, and it is said."""
    async with Stack(config(server_folder, sets=2, servers=1)) as stack:
        connection = await asyncpg.connect(stack.postgres("set-2").dsn("hongbao_owner", "hongbao"))
        await connection.execute("UPDATE fund_cursor SET after = 5000")
        await connection.close()
    said: list[str] = []
    async with Stack(config(server_folder, said, sets=2, servers=1)) as stack:
        connection = await asyncpg.connect(stack.postgres("set-2").dsn("hongbao_owner", "hongbao"))
        assert await connection.fetchval("SELECT after FROM fund_cursor") == 0
        await connection.close()
    assert [line for line in said if "was restored" in line and "sweeper of set-2 had seen 5000" in line]
    assert not [line for line in said if "sweeper of set-1" in line]
