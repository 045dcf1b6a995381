"""Where memcached listens when the path of the data folder is too long for a socket: never on a port."""

import asyncio
import os
from pathlib import Path

import pytest

from errors import Refused, Unavailable
from installation import inventory
from installation.data_folder import DataFolder
from local import memcached_socket as memcached_socket_module
from local import running
from local.memcached_socket import memcached_socket
from local.stack import Stack
from machine.account import Account, cache_account
from machine.memcached import MAX_SOCKET_PATH, Memcached, MemcachedSpec, is_private
from tests.integration.local.test_stack import config, told

pytestmark = pytest.mark.faults


@pytest.fixture
def deep(server_folder: Path) -> Path:
    """Return a folder below which no socket has room; our accounts can enter it."""
    path = server_folder
    while len(str(path)) <= MAX_SOCKET_PATH:
        path = path / "a-long-name-of-a-folder"
        path.mkdir(mode=0o711)
        path.chmod(0o711)
    return path


async def test_a_long_path_puts_the_socket_into_a_short_private_folder(deep: Path) -> None:
    """Only the servers' account and root reach it there, the inventory names it, and a stop leaves nothing of it."""
    async with Stack(config(deep, sets=1, servers=1)) as stack:
        (part,) = [one for one in running.load(stack.folder.running).parts if one.name == "memcached"]
        socket = Path(part.address)
        (server,) = [one for one in running.load(stack.folder.running).parts if one.name == "set-1-a"]
        env = await asyncio.to_thread(told, f"http://{server.address}")
        assert env["HONGBAO_MEMCACHED"] == str(socket)
        assert inventory.load(stack.folder.inventory).memcached == str(socket)
        assert deep not in socket.parents
        found = socket.parent.stat()
        assert (found.st_mode & 0o777, found.st_uid) == (0o700, cache_account().uid)
        assert socket.is_socket()
    assert not socket.parent.exists()


async def test_a_folder_that_a_stranger_has_taken_is_not_used(server_folder: Path, account: Account) -> None:
    """A link, or another account's folder, under the name of the last start: it is neither opened nor changed."""
    theirs = server_folder / "theirs"
    theirs.mkdir(mode=0o755)
    link = server_folder / "link"
    link.symlink_to(theirs)
    assert not is_private(link, account)
    spec = MemcachedSpec("cache", server_folder, server_folder / "cache.log", socket=link / "socket")
    server = Memcached(spec, account=account)
    with pytest.raises(Unavailable, match="no folder of ours"):
        await server.start()
    await server.stop()
    assert theirs.stat().st_mode & 0o777 == 0o755
    if os.geteuid() == 0:
        os.chown(theirs, account.uid + 1, -1)
        assert not is_private(theirs, account)


def test_no_place_for_a_socket_is_refused(deep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every folder's path is too long the start says what to do; it does not fall back to a port."""
    monkeypatch.setattr(memcached_socket_module, "_short_folders", lambda _account: iter((deep,)))
    with pytest.raises(Refused) as caught:
        memcached_socket(DataFolder(deep / "data"))
    assert caught.value.code == "socket_path_too_long"
    assert list(deep.iterdir()) == []


def test_the_folder_of_a_killed_start_is_taken_again(deep: Path, server_folder: Path) -> None:
    """A start that was killed has left its folder: the next one takes it, and another if it is not ours any more."""
    folder = DataFolder(deep / "data")
    folder.path.mkdir()
    first = memcached_socket(folder)
    inventory.save(
        inventory.Inventory(
            clusters={}, gateways={}, wallet_url="", memcached=str(first), topology="", archive="", secrets=""
        ),
        folder.inventory,
    )
    assert memcached_socket(folder) == first
    first.parent.rmdir()
    first.parent.symlink_to(server_folder)
    try:
        other = memcached_socket(folder)
        other.parent.rmdir()
        assert other.parent != first.parent
    finally:
        first.parent.unlink()
