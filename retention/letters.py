"""Dead letters: events that a receiver has refused for days, in each SET, until an operator sends them again."""

import asyncio
from dataclasses import replace

from events import retries
from installation.access import Access
from retention.held import Held
from runtime import postgres
from schema import roles


class DeadLetters:
    """Those of one SET; older ones than `days` go (0: none)."""

    def __init__(self, access: Access, set_name: str, days: int) -> None:
        self.name = f"dead letters of {set_name}"
        self.rule = f"{days} days" if days else "for ever"
        self._access = access
        self._set = set_name
        self._days = days

    async def look(self) -> Held:
        """Count them, by the time of the SET's server."""
        async with postgres.connected(self._access.set_dsn(self._set, roles.EVENTS)) as connection:
            count, size, oldest, past, past_size = await retries.dead_since(connection, self._days)
        return Held(
            self.name,
            self._set,
            self.rule,
            items=count,
            bytes=size,
            oldest=oldest,
            past=past,
            past_bytes=past_size,
        )

    async def remove(self, held: Held) -> Held:
        """Delete those that are too old by now, some more than were looked at; returns how many."""
        gone = 0
        async with postgres.connected(self._access.set_dsn(self._set, roles.EVENTS)) as connection:
            while some := await retries.drop_dead(connection, self._days):
                gone += some
                await asyncio.sleep(0)
        return replace(held, past=gone)
