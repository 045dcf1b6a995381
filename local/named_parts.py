"""The parts of an installation that something else than `./run` starts, by the addresses that its files name.

Such a part may be on any host: no process ID, no log and no time of its start is known here.
"""

import asyncio
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

from installation.access import Access
from local.running import Running, RunningPart
from local.stable_ports import EVENTS, MEMCACHED, WALLET, postgres_part
from runtime.dsn import place
from schema.roles import AUDIT


async def named_parts(access: Access) -> Running:
    """Return all parts that inventory and topology name, with the process ID 0; raises Refused `topology_invalid`.

    A name with several addresses stands for a process on each of them: `wallet@10.0.0.1`, `wallet@10.0.0.2`.
    """
    parts = [one for name, address in _ours(access) for one in await _each(access, name, address)]
    parts += [_part(postgres_part(name), place(access.dsn(name, AUDIT))) for name in access.servers()]
    caches = access.memcached_addresses()
    parts += [_part(MEMCACHED if len(caches) == 1 else f"{MEMCACHED}@{one}", one) for one in caches]
    return Running(pid=0, since="", parts=parts)


def _ours(access: Access) -> Iterator[tuple[str, str]]:
    for number, url in enumerate(access.gateway_urls, 1):
        yield f"gateway-{number}", urlsplit(url).netloc
    for one in access.topology().sets:
        for server in one.servers:
            yield server.name, urlsplit(server.url).netloc
    yield WALLET, urlsplit(access.wallet_url).netloc
    if access.events_url:
        yield EVENTS, urlsplit(access.events_url).netloc


async def _each(access: Access, name: str, address: str) -> list[RunningPart]:
    """Return one part for each address of its name; a certificate is for the name, so over TLS the name is asked."""
    host, _, port = address.rpartition(":")
    if not port.isdigit() or access.is_secure(address):
        return [_part(name, address)]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, int(port), family=socket.AF_INET, type=socket.SOCK_STREAM
        )
    except OSError:
        return [_part(name, address)]
    first, *more = dict.fromkeys(str(one[4][0]) for one in found)
    if not more:
        return [_part(name, address)]
    return [_part(f"{name}@{one}", f"{one}:{port}") for one in (first, *more)]


def _part(name: str, address: str) -> RunningPart:
    return RunningPart(name=name, pid=0, address=address, log="", since="")
