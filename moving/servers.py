"""Which topology version each server goes by: `hongbao_topology_version` in its /metrics."""

import asyncio
import errno
import re

import aiohttp

from errors import Unavailable
from moving.limits import ASK_AGAIN_S, ASK_S, RELOAD_S
from runtime.tls import Tls, session
from sharding.topology import ServerSpec, Topology
from sharding.topology.file import VERSION_METRIC

_VERSION = re.compile(rf"^{VERSION_METRIC} (\S+)$", re.MULTILINE)


async def all_follow(topology: Topology, *set_names: str, patience_s: float = RELOAD_S, tls: Tls | None = None) -> None:
    """Wait until every server of these SETs goes by `topology` or a later version.

    A server that refuses connections counts as stopped and is not waited for: it reads the file when it starts. One
    that cannot be reached (no route, no answer) may be running: it is waited for. Raises Unavailable `servers_lag`,
    naming the servers, after `patience_s`. `tls` is what servers at https:// are shown.
    """
    servers = [server for one in topology.sets if one.name in set_names for server in one.servers]
    loop = asyncio.get_running_loop()
    end = loop.time() + patience_s
    async with session(tls, timeout=aiohttp.ClientTimeout(total=ASK_S)) as asking:
        while True:
            seen = await asyncio.gather(*(_version(asking, server) for server in servers))
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
                    f"{', '.join(lag)} do not go by version {topology.version} of the topology; make sure that they "
                    "answer and can read the file, or stop them; then run this again",
                )
            await asyncio.sleep(ASK_AGAIN_S)


async def _version(asking: aiohttp.ClientSession, server: ServerSpec) -> int | None:
    """Return the version a server goes by; 0 if it does not say or cannot be reached, None if it is stopped."""
    try:
        async with asking.get(server.url.rstrip("/") + "/metrics") as answer:
            found = _VERSION.search(await answer.text())
            return int(float(found[1])) if found else 0
    except aiohttp.ClientConnectorError as error:
        # Any other error is one of the network between: in a partition the server runs and goes by the old file.
        return None if error.os_error.errno == errno.ECONNREFUSED else 0
    except (aiohttp.ClientError, TimeoutError, OSError):
        return 0
