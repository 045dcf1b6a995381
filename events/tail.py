"""Follows the logs of all SETs as they grow, for somebody who looks: `hongbao events tail`.

A tail is a sink that nobody calls: while it reads, commits write entries, and no entry that it has not read is deleted.
If its reader dies it expires by itself.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator

from errors import Unavailable
from events import register
from events.catalogue import Event
from events.cursor import Cursor
from events.facts import events_of
from events.limits import LOOK_S, POLL_S, TAIL_S
from events.log_reader import read
from events.operators import all_sets
from installation.access import Access
from runtime import postgres
from runtime.postgres import Connection


async def follow(access: Access) -> AsyncIterator[tuple[str, Event]]:
    """Yield (SET, event) for everything that is committed from now on, in order of each SET's commits.

    Raises Unavailable if a SET is, or goes, away.
    """
    name = f"tail-{secrets.token_hex(8)}"
    async with all_sets(access) as sets:
        tails = {one: _Tail(connection, name) for one, connection in sets.items()}
        try:
            for tail in tails.values():
                await tail.begin()
            while True:
                for set_name, tail in tails.items():
                    for event in await tail.read():
                        yield set_name, event
                await asyncio.sleep(POLL_S)
        except postgres.LOST as error:
            raise Unavailable("database_unavailable", f"a SET went away: {error}; begin again") from error
        finally:
            for connection in sets.values():
                with contextlib.suppress(*postgres.LOST):  # then it expires
                    await register.remove(connection, name)


class _Tail:
    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._cursor = Cursor("", "")
        self._kept_at = 0.0

    async def begin(self) -> None:
        self._cursor = await register.add_tail(self._connection, self._name, TAIL_S)

    async def read(self) -> list[Event]:
        """Return what is new, and stay alive."""
        found = await read(self._connection, self._cursor)
        self._cursor = found.next
        now = asyncio.get_running_loop().time()
        if now - self._kept_at > LOOK_S and not self._cursor.span_begun:
            self._kept_at = now
            await register.keep_tail(self._connection, self._name, self._cursor, TAIL_S)
        return [event for entry, _ in found.entries for event in events_of(entry)]
