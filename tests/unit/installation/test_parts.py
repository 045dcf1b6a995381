"""Which parts an installation has, by its files: all kinds, each where it is reached, several processes at a name."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from installation import inventory
from installation.access import Access
from installation.draft import draft
from installation.finding import find
from installation.keys import Secrets
from installation.parts import Kind, each_place, parts_of
from sharding.topology import Topology, dump


@pytest.fixture
def access(tmp_path: Path) -> Access:
    """Two SETs with a memcached each, and everything that may be named."""
    made = draft(
        postgres={"wallet": "10.0.0.1:5432,10.0.0.2:5432", "set-1": "10.0.0.1:5433", "set-2": "10.0.0.2:5433"},
        setnodes={"set-1-a": "set-1@10.0.0.1:8200", "set-2-a": "set-2@10.0.0.2:8200"},
        gateways={"gateway-1": "10.0.0.1:8080"}, wallet="wallet.hongbao:8300",
        memcached={"set-1": "10.0.0.1:11211", "set-2": "10.0.0.2:11211"}, archive=str(tmp_path / "archive"),
        events="events.hongbao:8400", rotation="rotation.hongbao:9300",
    )  # fmt: skip
    Secrets.load(tmp_path / "secrets.json").ensure({name: tuple(one.dsns) for name, one in made.clusters.items()})
    inventory.save(made, tmp_path / "installation.toml")
    access = find(tmp_path)
    sets = tuple(access.set_specs())
    dump(Topology(version=1, slots=10, sets=sets, wallet_url=access.wallet_url), access.topology_path)
    return access


def test_every_part_that_the_files_name(access: Access) -> None:
    """Each process, database and memcached once, with its address; only processes have a URL."""
    found = parts_of(access)
    assert [(one.name, one.kind, one.address) for one in found] == [
        ("gateway-1", Kind.GATEWAY, "10.0.0.1:8080"),
        ("set-1-a", Kind.SETNODE, "10.0.0.1:8200"),
        ("set-2-a", Kind.SETNODE, "10.0.0.2:8200"),
        ("wallet", Kind.WALLET, "wallet.hongbao:8300"),
        ("events", Kind.EVENTS, "events.hongbao:8400"),
        ("rotation", Kind.ROTATION, "rotation.hongbao:9300"),
        ("postgres-wallet", Kind.POSTGRES, "10.0.0.1:5432, 10.0.0.2:5432"),
        ("postgres-set-1", Kind.POSTGRES, "10.0.0.1:5433"),
        ("postgres-set-2", Kind.POSTGRES, "10.0.0.2:5433"),
        ("memcached@10.0.0.1:11211", Kind.MEMCACHED, "10.0.0.1:11211"),
        ("memcached@10.0.0.2:11211", Kind.MEMCACHED, "10.0.0.2:11211"),
    ]
    assert {one.set for one in found if one.kind in (Kind.SETNODE, Kind.POSTGRES)} == {"set-1", "set-2", ""}
    assert [one.name for one in found if one.url] == [one.name for one in found[:6]]


async def test_a_name_with_several_addresses_is_several_processes(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is asked at its own address, over TLS in its name; a name nobody knows stays one, as does a database."""
    known = {"wallet.hongbao": ("10.0.0.1", "10.0.0.2"), "events.hongbao": ("10.0.0.1",)}

    async def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        if host not in known:
            raise OSError(host)
        return [(0, 0, 0, "", (one, port)) for one in known[host]]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    parts = {one.name: one for one in parts_of(access)}
    wallets = await each_place(access, parts["wallet"])
    assert [(one.name, one.address, one.url) for one in wallets] == [
        ("wallet@10.0.0.1", "10.0.0.1:8300", "http://10.0.0.1:8300"),
        ("wallet@10.0.0.2", "10.0.0.2:8300", "http://10.0.0.2:8300"),
    ]
    monkeypatch.setattr(type(access), "is_secure", lambda _, address: address == parts["wallet"].address)
    assert [(one.address, one.url, one.certified) for one in await each_place(access, parts["wallet"])] == [
        ("10.0.0.1:8300", "https://10.0.0.1:8300", "wallet.hongbao"),
        ("10.0.0.2:8300", "https://10.0.0.2:8300", "wallet.hongbao"),
    ]
    for name in ("events", "rotation", "postgres-set-1"):
        assert await each_place(access, parts[name]) == [parts[name]]
    members = await each_place(access, parts["postgres-wallet"])
    assert [(one.name, one.address, one.server) for one in members] == [
        ("postgres-wallet", "10.0.0.1:5432, 10.0.0.2:5432", "wallet"),
        ("postgres-wallet@10.0.0.1:5432", "10.0.0.1:5432", "wallet"),
        ("postgres-wallet@10.0.0.2:5432", "10.0.0.2:5432", "wallet"),
    ]
