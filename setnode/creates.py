"""The lane of creates: headers whose money is in escrow wait here to be written together."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from envelope.errors import HongbaoError, Unavailable
from envelope.terms import Terms
from runtime import logs
from runtime.postgres import is_lost
from setnode.fences import moved_database, wrong_set
from setnode.limits import CREATE_BATCH
from setnode.store import insert_envelopes
from sharding.ids import day_of
from sharding.slots import database_of

T = TypeVar("T")

_NO_PARTITION = "23514"

_log = logs.get("setnode")


class Inserted(NamedTuple):
    """What a batch left in the database: the IDs that went in; those of `without_tables` have nowhere to go yet.

    The database of those in `moved` has left this SET.
    """

    written: set[int]
    without_tables: set[int]
    moved: set[int]


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

    async def write(self, connection: Any, batch: list[tuple[Terms, asyncio.Future[bool]]]) -> Inserted:
        """Insert the headers, their due entries and their guests: in one transaction, as long as all days have tables.

        Where one has none Postgres refuses the batch as a whole; then each day has a transaction of its own, so that
        only the creates of that day fail. A batch spans two days around midnight, hardly ever more. The same by
        database where one of them has left this SET.
        """
        headers = [terms for terms, _ in batch]
        try:
            return Inserted(await insert_envelopes(connection, headers), set(), set())
        except Exception as error:
            moved = moved_database(error) is not None
            if not moved and not _lacks_tables(error):
                raise
        done = Inserted(set(), set(), set())
        for part, group in _parted(headers, _database if moved else _day).items():
            try:
                done.written.update(await insert_envelopes(connection, group))
            except Exception as error:
                ids = [terms.envelope_id for terms in group]
                if moved_database(error) is not None:
                    done.moved.update(ids)
                elif _lacks_tables(error):
                    _log.error("creates refused: their day has no tables", part=str(part), creates=len(group))
                    done.without_tables.update(ids)
                else:
                    raise
        return done

    def done(self, batch: list[tuple[Terms, asyncio.Future[bool]]], result: Inserted) -> None:
        """Tell each whether it went in, or that its day has no tables."""
        for terms, future in batch:
            if terms.envelope_id in result.without_tables:
                missing = "the tables of this business day are missing; operators know"
                self._fail([(terms, future)], Unavailable("day_tables_missing", missing))
            elif terms.envelope_id in result.moved:
                self._fail([(terms, future)], wrong_set())
            elif not future.done():
                future.set_result(terms.envelope_id in result.written)

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


def _lacks_tables(error: Exception) -> bool:
    return getattr(error, "sqlstate", None) == _NO_PARTITION and "partition" in str(error)


def _parted(headers: Iterable[Terms], by: Callable[[int], T]) -> dict[T, list[Terms]]:
    parts: dict[T, list[Terms]] = defaultdict(list)
    for terms in headers:
        parts[by(terms.envelope_id)].append(terms)
    return parts


def _day(envelope_id: int) -> object:
    return day_of(envelope_id)


def _database(envelope_id: int) -> object:
    return database_of(envelope_id % 1000)
