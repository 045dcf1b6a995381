"""Follows the logs of all SETs as they grow, for somebody who looks: `hongbao events tail`.

A tail is a sink that nobody calls: while it reads, commits write entries, and no entry that it has not read is deleted.
If its reader dies it expires by itself.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator

from errors import Refused
from events import register
from events.cursor import Cursor
from events.event import Event
from events.facts import events_of
from events.limits import LOOK_S, POLL_S, TAIL_S
from events.log_reader import read
from events.operators import all_sets
from installation.access import Access
from runtime import postgres
from runtime.postgres import Connection


async def follow(access: Access) -> AsyncIterator[tuple[str, Event]]:
    """Yield (SET, event) for everything that is committed from now on, in order of each SET's commits.

    Raises Unavailable if a SET is, or goes, away; Refused `tail_expired` if the caller was away for so long that events
    may be missing.
    """
    name = f"tail-{secrets.token_hex(8)}"
    async with all_sets(access) as sets:
        tails = {one: _Tail(connection, name) for one, connection in sets.items()}
        try:
            for tail in tails.values():
                await tail.begin()
            while True:
                found = False
                for set_name, tail in tails.items():
                    for event in await tail.read():
                        found = True
                        yield set_name, event
                if not found:
                    await asyncio.sleep(POLL_S)
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
        if now - self._kept_at > LOOK_S:
            self._kept_at = now
            if not await register.keep_tail(self._connection, self._name, self._cursor, TAIL_S):
                raise Refused(
                    "tail_expired", f"nothing was read for {TAIL_S:.0f} s: events may be missing; begin again"
                )
        return [event for entry, _ in found.entries for event in events_of(entry)]
