"""The parts of an installation: which processes, databases and caches its files name, and where each is reached."""

import asyncio
import socket
from collections.abc import Iterator
from enum import StrEnum
from urllib.parse import urlsplit

import msgspec

from installation.access import Access
from runtime.dsn import place
from schema.roles import AUDIT


class Kind(StrEnum):
    """How a part is asked whether it is well."""

    GATEWAY = "gateway"
    SETNODE = "setnode"
    WALLET = "wallet"
    POSTGRES = "postgres"
    MEMCACHED = "memcached"
    EVENTS = "events"
    ROTATION = "rotation"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """`address`: host:port, or the path of memcached's socket. `url`: of parts that speak HTTP, "" for the others.

    `set`: of a setnode, and of a SET's Postgres. `server`: of a Postgres, the name of its DSN. `certified`: for which
    name its certificate is, where `address` is one of several at that name.
    """

    name: str
    kind: Kind
    address: str
    url: str = ""
    set: str = ""
    server: str = ""
    certified: str = ""
    drained: bool = False


def postgres_part(server: str) -> str:
    """Return the name of the part that is the Postgres of a SET, or of the wallet."""
    return f"postgres-{server}"


def parts_of(access: Access) -> list[Part]:
    """Return all parts, as inventory and topology name them; raises Refused `topology_invalid`."""
    return [*_gateways(access), *_setnodes(access), *_single(access), *_databases(access), *_caches(access)]


def _gateways(access: Access) -> Iterator[Part]:
    for number, url in enumerate(access.gateway_urls, 1):
        yield _process(f"gateway-{number}", Kind.GATEWAY, url)


def _setnodes(access: Access) -> Iterator[Part]:
    for one in access.topology().sets:
        for server in one.servers:
            known = _process(server.name, Kind.SETNODE, server.url.rstrip("/"))
            yield msgspec.structs.replace(known, set=one.name, drained=server.drained)


def _single(access: Access) -> Iterator[Part]:
    """Yield what has one name, however many processes are at it."""
    urls = {Kind.WALLET: access.wallet_url, Kind.EVENTS: access.events_url, Kind.ROTATION: access.rotation_url}
    for kind, url in urls.items():
        if url:
            yield _process(kind.value, kind, url)


def _databases(access: Access) -> Iterator[Part]:
    sets = {one.name for one in access.topology().sets}
    for name in access.servers():
        address = place(access.dsn(name, AUDIT))
        of_set = name if name in sets else ""
        yield Part(name=postgres_part(name), kind=Kind.POSTGRES, set=of_set, address=address, server=name)


def _caches(access: Access) -> Iterator[Part]:
    found = access.memcached_addresses()
    for address in found:
        name = Kind.MEMCACHED.value if len(found) == 1 else f"{Kind.MEMCACHED}@{address}"
        yield Part(name=name, kind=Kind.MEMCACHED, address=address)


def _process(name: str, kind: Kind, url: str) -> Part:
    return Part(name=name, kind=kind, address=urlsplit(url).netloc, url=url)


async def each_place(access: Access, part: Part) -> list[Part]:
    """Return the part, and if it is at several places what is at each of them.

    Several processes at a name stand for it: `wallet@10.0.0.1`, `wallet@10.0.0.2`. The members of a Postgres come after
    it: `postgres-set-1` is whichever can write, `postgres-set-1@10.0.0.3:5433` may be a standby. A certificate is for
    the name, so over TLS each place is asked under that name.
    """
    if part.kind is Kind.POSTGRES:
        members = [] if ", " not in part.address else part.address.split(", ")
        return [part, *(msgspec.structs.replace(part, name=f"{part.name}@{one}", address=one) for one in members)]
    host, _, port = part.address.rpartition(":")
    if not part.url or not port.isdigit():
        return [part]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, int(port), family=socket.AF_INET, type=socket.SOCK_STREAM
        )
    except OSError:
        return [part]  # nobody knows the name: whoever asks it says so
    first, *more = dict.fromkeys(str(one[4][0]) for one in found)
    if not more:
        return [part]
    secure = access.is_secure(part.address)
    return [
        msgspec.structs.replace(
            part, name=f"{part.name}@{one}", address=f"{one}:{port}", certified=host if secure else "",
            url=f"{'https' if secure else 'http'}://{one}:{port}",
        )
        for one in (first, *more)
    ]  # fmt: skip
