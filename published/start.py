"""The first topology of a host: a process that finds no file asks for what is published, once, before it starts."""

import asyncio
import contextlib
from pathlib import Path
from typing import Final

from errors import Refused, Unavailable
from published.follower import Follower
from runtime import postgres
from runtime.tls import Tls
from wire.keys import LinkKey
from wire.link import Link

WAIT_S: Final = 20.0
"""A part that is asked may be starting itself, and then looks first for what it will tell."""
LOOK_S: Final = 0.1


async def ensure_from_database(topology: Path, dsn: str) -> None:
    """Write the topology file from a database, if there is none.

    Raises Refused `nothing_published` if the database has none either, Unavailable `database_unavailable`.
    """
    if topology.exists():
        return
    async with postgres.connected(dsn) as connection:
        await Follower(topology).look_in(connection)
    if not topology.exists():
        raise Refused("nothing_published", f"there is no {topology} and no topology is published: {_HOW}")


async def ensure_from_process(topology: Path, name: str, url: str, key: LinkKey, tls: Tls | None = None) -> None:
    """Write the topology file from what the process `name` knows, if there is none.

    Raises Unavailable `peer_down` if it does not answer for WAIT_S, Refused `link_refused`, `nothing_published`.
    """
    if topology.exists():
        return
    link, answered = Link(name, url, key=key, tls=tls), False
    keeping = asyncio.ensure_future(link.maintain())
    try:
        follower = Follower(topology)
        async with asyncio.timeout(WAIT_S):
            while not topology.exists():
                if link.refusal:
                    raise Refused("link_refused", link.refusal)
                if link.up:
                    answered = True
                    with contextlib.suppress(Unavailable):
                        await follower.ask(link)
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        if answered:
            raise Refused(
                "nothing_published", f"there is no {topology}, and the {name} knows of no topology: {_HOW}"
            ) from None
        raise Unavailable("peer_down", f"there is no {topology}, and the {name} at {url} does not answer") from None
    finally:
        keeping.cancel()
        await asyncio.wait({keeping})


_HOW: Final = "hongbao topology apply publishes the first"
