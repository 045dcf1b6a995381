"""The lane of creates: headers whose money is in escrow wait here to be written together."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

from envelope.errors import HongbaoError, Unavailable
from envelope.terms import Terms
from runtime.postgres import is_lost
from setnode.limits import CREATE_BATCH
from setnode.store import insert_envelopes

_NO_PARTITION = "23514"


class CreateLane:
    """`insert` waits for the commit that holds the envelope and says whether this call wrote it."""

    def __init__(self) -> None:
        self.wanted = asyncio.Event()
        self.crowded = self.wanted
        self._ready: deque[tuple[Terms, asyncio.Future[bool]]] = deque()

    def insert(self, terms: Terms) -> asyncio.Future[bool]:
        """Write a header; True when it went in, False when its ID stood already. Durable when done."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._ready.append((terms, future))
        self.wanted.set()
        return future

    def hot(self) -> Sequence[int]:
        """No create is hot: an envelope is created once."""
        return ()

    def gather(self, skip: set[int]) -> list[tuple[Terms, asyncio.Future[bool]]] | None:
        """Take what waits, each ID once (a twin waits for the next batch)."""
        del skip
        batch: dict[int, tuple[Terms, asyncio.Future[bool]]] = {}
        twins = []
        while self._ready and len(batch) < CREATE_BATCH:
            waiting = self._ready.popleft()
            if waiting[0].envelope_id in batch:
                twins.append(waiting)
            else:
                batch[waiting[0].envelope_id] = waiting
        self._ready.extendleft(reversed(twins))
        if not self._ready:
            self.wanted.clear()
        return list(batch.values()) or None

    async def write(self, connection: Any, batch: list[tuple[Terms, asyncio.Future[bool]]]) -> set[int]:
        """Insert the headers, their due entries and their guests."""
        return await insert_envelopes(connection, [terms for terms, _ in batch])

    def done(self, batch: list[tuple[Terms, asyncio.Future[bool]]], result: set[int]) -> None:
        """Tell each whether it went in."""
        for terms, future in batch:
            if not future.done():
                future.set_result(terms.envelope_id in result)

    def lost(self, batch: list[tuple[Terms, asyncio.Future[bool]]], error: Exception) -> None:
        """Tell everybody that nobody knows, or that the day has no tables; the creator tries again."""
        known = not is_lost(error)
        if getattr(error, "sqlstate", None) == _NO_PARTITION and "partition" in str(error):
            failure = Unavailable("day_tables_missing", "the tables of this business day are missing; operators know")
        else:
            failure = Unavailable("database_unavailable", "the database does not answer", outcome_known=known)
        self._fail(batch, failure)

    def refuse(self, error: HongbaoError) -> None:
        """Refuse all that wait for an entry."""
        waiting, self._ready = list(self._ready), deque()
        self.wanted.clear()
        self._fail(waiting, error)

    def _fail(self, batch: Sequence[tuple[Terms, asyncio.Future[bool]]], error: HongbaoError) -> None:
        for _, future in batch:
            if not future.done():
                future.set_exception(error)
                future.exception()  # whoever asked may be gone
