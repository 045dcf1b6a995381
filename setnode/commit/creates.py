"""The lane of creates: headers whose money is in escrow wait here to be written together."""

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import date
from typing import Any, NamedTuple

from envelope.errors import HongbaoError, Refused, Unavailable
from envelope.terms import Terms
from runtime import logs
from runtime.postgres import is_lost
from setnode.commit.fences import closed_day, moved_database, parted, wrong_set
from setnode.commit.store import insert_envelopes
from setnode.limits import CREATE_BATCH
from sharding.ids import day_of

_log = logs.get("setnode")


class Inserted(NamedTuple):
    """What a batch left in the database: the IDs that went in; those of `without_tables` have nowhere to go yet.

    The day of those in `closed` is over for good, the database of those in `moved` has left this SET.
    """

    written: set[int]
    without_tables: set[int]
    closed: set[int]
    moved: set[int]


class CreateLane:
    """`insert` waits for the commit that holds the envelope and says whether this call wrote it."""

    def __init__(self) -> None:
        self.wanted = asyncio.Event()
        self.crowded = self.wanted
        self._ready: deque[tuple[Terms, asyncio.Future[bool]]] = deque()
        self._new_future = asyncio.get_running_loop().create_future

    def insert(self, terms: Terms) -> asyncio.Future[bool]:
        """Write a header; True when it went in, False when its ID stood already. Durable when done."""
        future: asyncio.Future[bool] = self._new_future()
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

    async def write(self, connection: Any, batch: list[tuple[Terms, asyncio.Future[bool]]]) -> Inserted:
        """Insert the headers, their due entries and their guests: in one transaction, as long as all days have tables.

        Where one has none, or is closed, or a database has left this SET, Postgres refuses the batch as a whole; then
        they go apart by day, or by database, so that only the creates that it concerns fail.
        """
        done = Inserted(set(), set(), set(), set())
        await _insert(connection, [terms for terms, _ in batch], done)
        return done

    def done(self, batch: list[tuple[Terms, asyncio.Future[bool]]], result: Inserted) -> None:
        """Tell each whether it went in, or that its day has no tables."""
        written = result.written
        if len(written) == len(batch):
            for _, future in batch:
                if not future.done():
                    future.set_result(True)
            return
        for terms, future in batch:
            if terms.envelope_id in result.without_tables:
                missing = "the tables of this business day are missing; operators know"
                self._fail([(terms, future)], Unavailable("day_tables_missing", missing))
            elif terms.envelope_id in result.moved:
                self._fail([(terms, future)], wrong_set())
            elif terms.envelope_id in result.closed:
                self._fail([(terms, future)], day_closed(day_of(terms.envelope_id)))
            elif not future.done():
                future.set_result(terms.envelope_id in written)

    def lost(self, batch: list[tuple[Terms, asyncio.Future[bool]]], error: Exception) -> None:
        """Tell everybody that nobody knows; the creator tries again."""
        known = not is_lost(error)
        self._fail(batch, Unavailable("database_unavailable", "the database does not answer", outcome_known=known))

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


def day_closed(day: date) -> Refused:
    """Return what a create of a day hears that nobody can write any more."""
    return Refused("day_closed", f"the business day {day} is closed; use a new key, and operators look for the money")


async def _insert(connection: Any, headers: Sequence[Terms], done: Inserted) -> None:
    """Insert together what goes in together: apart by day, or by database, once Postgres has refused all of it."""
    try:
        done.written.update(await insert_envelopes(connection, headers))
    except Exception as error:
        parts = parted(headers, error, lambda terms: terms.envelope_id)
        if parts is None:
            raise
        if len(parts) > 1:
            for group in parts:
                await _insert(connection, group, done)
            return
        _log.error("creates refused", reason=str(error), creates=len(headers))
        if moved_database(error) is not None:
            refused = done.moved
        else:
            refused = done.without_tables if closed_day(error) is None else done.closed
        refused.update(terms.envelope_id for terms in headers)
