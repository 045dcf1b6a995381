"""Whose database it is: the name of its SET, or "wallet", kept in the database itself.

A process that was given the address of another SET's database would find none of its envelopes, and write its own where
nobody looks for them.
"""

import asyncio
from typing import Final

from errors import Refused, Unavailable
from runtime import logs, postgres
from runtime.dsn import place
from runtime.postgres import Connection

PAUSE_S: Final = 0.5
_log = logs.get("schema")
_READ = "SELECT name FROM belongs_to"


async def claim(dsn: str, name: str) -> None:
    """Write down whose database it is, as its owner, if that is not known yet; durable when this returns.

    Raises Refused `other_database` if it is another's; nothing is changed then.
    """
    async with postgres.connected(dsn) as connection:
        await connection.execute("INSERT INTO belongs_to (name) VALUES ($1) ON CONFLICT DO NOTHING", name)
        await check(connection, name, dsn)


async def check(connection: Connection, name: str, dsn: str) -> None:
    """Raise Refused `other_database` if the database is another's; one that says nothing is nobody's yet."""
    found = await connection.fetchval(_READ)
    if found not in (None, name):
        raise Refused(
            "other_database",
            f"this is {name}, and the database at {place(dsn)} is that of {found}: correct the address; nothing was "
            "changed",
        )


async def wait_for(dsn: str, name: str) -> None:
    """Return once the database answers and is not another's; raises Refused `other_database`, `LoginRefused`.

    A process calls it before it does anything else; while Postgres is away it waits, and is not ready.
    """
    told = ""
    while True:
        try:
            async with postgres.connected(dsn) as connection:
                await check(connection, name, dsn)
                return
        except postgres.LoginRefused:
            raise
        except Unavailable as away:
            if away.detail != told:
                told = away.detail
                _log.warning("waiting for the database", error=told)
        except Exception as error:
            if not postgres.is_lost(error):
                raise
        await asyncio.sleep(PAUSE_S)
