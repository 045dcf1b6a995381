import shutil
from pathlib import Path

import pytest

from errors import Refused
from machine import debian_programs
from machine.account import Account
from machine.memcached import Memcached, MemcachedSpec, responds


async def test_it_answers_on_loopback_and_restarts_on_its_port(server_folder: Path, account: Account) -> None:
    """A started memcached answers, a killed one comes back empty at the same address, a stopped one is gone."""
    server = Memcached(MemcachedSpec("cache", server_folder, server_folder / "cache.log"), account=account)
    await server.start()
    port = int(server.address.split(":")[1])
    assert await responds(port)
    server.kill()
    await server.wait()
    await server.start()
    assert server.address == f"127.0.0.1:{port}"
    assert await responds(port)
    await server.stop()
    assert not await responds(port)


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
    host, port = memcached.split(":")
    assert host == "127.0.0.1"
    assert await responds(int(port))
