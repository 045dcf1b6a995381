"""Which servers go by which topology, by their own word: `hongbao_topology_version` of their /metrics."""

import asyncio
import re

import aiohttp

from envelope.errors import Unavailable
from moving.limits import ASK_S, RELOAD_S
from sharding.topology import ServerSpec, Topology
from sharding.topology.file import VERSION_METRIC

_EVERY_S = 0.1
_VERSION = re.compile(rf"^{VERSION_METRIC} (\S+)$", re.MULTILINE)


async def all_follow(topology: Topology, *set_names: str, patience_s: float = RELOAD_S) -> None:
    """Wait until every server of these SETs goes by `topology` or a later one; one that is down will, when it starts.

    Raises Unavailable `servers_lag` with their names.
    """
    servers = [server for one in topology.sets if one.name in set_names for server in one.servers]
    loop = asyncio.get_running_loop()
    end = loop.time() + patience_s
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ASK_S)) as session:
        while True:
            seen = await asyncio.gather(*(_version(session, server) for server in servers))
            lag = [
                server.name
                for server, version in zip(servers, seen, strict=True)
                if version is not None and version < topology.version
            ]
            if not lag:
                return
            if loop.time() >= end:
                raise Unavailable(
                    "servers_lag",
                    f"{', '.join(lag)} do not go by version {topology.version} of the topology; see to it that they "
                    "answer and can read it, or stop them; then run this again",
                )
            await asyncio.sleep(_EVERY_S)


async def _version(session: aiohttp.ClientSession, server: ServerSpec) -> int | None:
    """Return the version a server goes by; 0 for one that is there and does not say, None for one that is down."""
    try:
        async with session.get(server.url.rstrip("/") + "/metrics") as answer:
            found = _VERSION.search(await answer.text())
            return int(float(found[1])) if found else 0
    except aiohttp.ClientConnectorError:
        return None
    except (aiohttp.ClientError, TimeoutError, OSError):
        return 0
