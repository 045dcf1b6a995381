import shutil
from pathlib import Path

import pytest

from errors import Refused
from machine import debian_programs
from machine.account import Account
from machine.memcached import Memcached, MemcachedSpec, responds
from setnode.commit.lease_store import LeaseStore


async def test_it_answers_on_loopback_and_restarts_on_its_port(server_folder: Path, account: Account) -> None:
    """A started memcached answers, a killed one comes back empty at the same address, a stopped one is gone."""
    server = Memcached(MemcachedSpec("cache", server_folder, server_folder / "cache.log"), account=account)
    await server.start()
    address = server.address
    assert await responds(address)
    server.kill()
    await server.wait()
    await server.start()
    assert server.address == address
    assert await responds(address)
    await server.stop()
    assert not await responds(address)


async def test_on_a_socket_only_its_own_account_reaches_it(server_folder: Path, account: Account) -> None:
    """The socket's folder is closed to all others; a server killed there starts again; leases go through it."""
    socket = server_folder / "cache" / "socket"
    spec = MemcachedSpec("cache", server_folder, server_folder / "cache.log", socket=socket)
    server = Memcached(spec, account=account)
    await server.start()
    assert server.address == str(socket)
    assert socket.parent.stat().st_mode & 0o777 == 0o700
    assert socket.parent.stat().st_uid == account.uid
    assert socket.stat().st_mode & 0o077 == 0
    leases = LeaseStore(server.address, 60.0)
    assert leases.append("set", "one", 1)
    assert not leases.append("set", "two", 1)
    leases.close()
    server.kill()
    await server.wait()
    await server.start()
    assert await responds(server.address)
    await server.stop()
    assert not await responds(server.address)


async def test_a_missing_memcached_is_one_line(
    server_folder: Path, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without memcached on PATH and without a way to fetch it, the error says what to install."""
    real = shutil.which
    monkeypatch.setattr(
        debian_programs.shutil, "which", lambda name, **more: None if name == "memcached" else real(name, **more)
    )

    async def cannot_fetch(_name: str, _tools: Path) -> None:
        pass

    monkeypatch.setattr(debian_programs, "_fetch", cannot_fetch)
    spec = MemcachedSpec("cache", server_folder, server_folder / "cache.log", tools=server_folder / "none")
    with pytest.raises(Refused, match="install it") as caught:
        await Memcached(spec, account=account).start()
    assert caught.value.code == "no_memcached"
    assert "\n" not in caught.value.detail


async def test_the_fixture_gives_an_empty_one(memcached: str) -> None:
    """The session's memcached is flushed before each test that asks for it."""
    assert memcached.startswith("127.0.0.1:")
    assert await responds(memcached)
