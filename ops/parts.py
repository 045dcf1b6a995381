"""What there is to watch: the parts of an installation by name, kind and address."""

from collections.abc import Iterator
from enum import StrEnum
from urllib.parse import urlsplit

import msgspec

from errors import Refused
from installation.access import Access
from installation.data_folder import DataFolder
from local import running
from local.running import RunningPart
from local.stable_ports import EVENTS, MEMCACHED, WALLET, postgres_part
from runtime.dsn import place
from schema.roles import AUDIT as _AUDIT


class Kind(StrEnum):
    """How a part is asked whether it is well."""

    GATEWAY = "gateway"
    SETNODE = "setnode"
    WALLET = "wallet"
    POSTGRES = "postgres"
    MEMCACHED = "memcached"
    EVENTS = "events"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """`url`: of HTTP parts. `server`: of a Postgres, the name of its DSN. `pid` 0: not of this machine."""

    name: str
    kind: Kind
    address: str
    set: str = ""
    url: str = ""
    server: str = ""
    drained: bool = False
    pid: int = 0
    restarts: int = 0


def parts_of(access: Access, folder: DataFolder) -> list[Part]:
    """Return all parts, as the inventory and the topology name them; raises Refused `topology_invalid`."""
    here = _running(folder)
    return [_with_process(part, here.get(part.name)) for part in _named(access, here)]


def _named(access: Access, here: dict[str, RunningPart]) -> Iterator[Part]:
    own = [one for name, one in here.items() if name.startswith("gateway-")]
    # Several gateways of this machine share a port; each has one of its own, which only the runner knows.
    urls = [f"http://{one.address}" for one in own] or access.gateway_urls
    for number, url in enumerate(urls, 1):
        yield Part(name=f"gateway-{number}", kind=Kind.GATEWAY, address=urlsplit(url).netloc, url=url)
    topology = access.topology()
    for one in topology.sets:
        for server in one.servers:
            yield Part(
                name=server.name, kind=Kind.SETNODE, set=one.name, address=urlsplit(server.url).netloc,
                url=server.url.rstrip("/"), drained=server.drained,
            )  # fmt: skip
    yield Part(name=WALLET, kind=Kind.WALLET, address=urlsplit(access.wallet_url).netloc, url=access.wallet_url)
    if access.events_url:
        yield Part(name=EVENTS, kind=Kind.EVENTS, address=urlsplit(access.events_url).netloc, url=access.events_url)
    sets = {one.name for one in topology.sets}
    for name in access.servers():
        address = place(access.dsn(name, _AUDIT))
        of_set = name if name in sets else ""
        yield Part(name=postgres_part(name), kind=Kind.POSTGRES, set=of_set, address=address, server=name)
    yield Part(name=MEMCACHED, kind=Kind.MEMCACHED, address=access.memcached)


def _running(folder: DataFolder) -> dict[str, RunningPart]:
    try:
        return {one.name: one for one in running.load(folder.running).parts}
    except Refused:
        return {}  # it runs by other means, or not at all: then no part answers


def _with_process(part: Part, one: RunningPart | None) -> Part:
    return part if one is None else msgspec.structs.replace(part, pid=one.pid, restarts=one.restarts)
