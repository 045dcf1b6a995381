"""The commit queue of creates: headers whose money is in escrow, to be written together."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from envelope.terms import Terms
from errors import HongbaoError, Refused, Unavailable
from runtime import logs
from runtime.postgres import is_bad_row, is_lost
from setnode.commit.fences import closed_day, day_closed, lacks_tables, moved_database, split_by_fence, wrong_set
from setnode.commit.store import insert_envelopes
from setnode.limits import CREATE_BATCH
from sharding.ids import day_of
from wire.limits import CREATES_CROWD
from wire.load import Waits

_log = logs.get("setnode")

_Waiting = tuple[Terms, asyncio.Future[bool]]


class Inserted(NamedTuple):
    """What became of the IDs of a batch: `written` are durable, an ID in none of the sets existed before.

    The others were refused: their day has no tables yet, is closed for good, or their database has left this SET; or
    Postgres does not accept their terms (`bad`).
    """

    written: set[int]
    without_tables: set[int]
    closed: set[int]
    moved: set[int]
    bad: set[int]


class CreateQueue:
    """`insert` returns a future that is done when the header is durable (`setnode.commit.committer.CommitQueue`)."""

    def __init__(self) -> None:
        self.nonempty = asyncio.Event()
        self.backlogged = self.nonempty
        self._ready: deque[_Waiting] = deque()
        loop = asyncio.get_running_loop()
        self._new_future, self._time = loop.create_future, loop.time
        self._since = 0.0
        """Since when the first header waits."""
        self.waits = Waits(
            lambda: self._time() - self._since if self._ready else 0.0, lambda: len(self._ready), CREATES_CROWD
        )
        """How long headers wait before they are written (`wire.load`)."""

    def insert(self, terms: Terms) -> asyncio.Future[bool]:
        """Enqueue a header. The result is True if this call wrote it, False if its ID existed; durable either way.

        Errors: Unavailable `day_tables_missing`, `wrong_set`, `busy`, `database_unavailable` (its `outcome_known` says
        whether the header may be written after all); Refused `day_closed`, `malformed_request`. It is safe to repeat.
        """
        future: asyncio.Future[bool] = self._new_future()
        if not self._ready:
            self._since = self._time()
        self._ready.append((terms, future))
        self.nonempty.set()
        return future

    def hot_envelopes(self) -> Sequence[int]:
        """Return nothing: an envelope is created once, so no create needs a lease of its own."""
        return ()

    def next_batch(self, skip: set[int]) -> list[_Waiting] | None:
        """Take what waits, but each ID once: a second create of it is for the next batch, which finds it written."""
        del skip
        if self._ready:
            now = self._time()
            self.waits.note(now - self._since)
            self._since = now
        batch: dict[int, _Waiting] = {}
        twins = []
        while self._ready and len(batch) < CREATE_BATCH:
            waiting = self._ready.popleft()
            if waiting[0].envelope_id in batch:
                twins.append(waiting)
            else:
                batch[waiting[0].envelope_id] = waiting
        self._ready.extendleft(reversed(twins))
        if not self._ready:
            self.nonempty.clear()
        return list(batch.values()) or None

    async def write(self, connection: Any, batch: list[_Waiting]) -> Inserted:
        """Insert the headers, their due entries and their guests in one transaction.

        If a fence refuses the transaction, the headers are inserted again in parts by day or by database, so that only
        the creates that the fence concerns fail. So are they, by halves, if Postgres does not accept a row of one.
        """
        result = Inserted(set(), set(), set(), set(), set())
        await _insert(connection, [terms for terms, _ in batch], result)
        return result

    def on_committed(self, batch: list[_Waiting], result: Inserted) -> None:
        """Set the result of each create, or the error of those that were refused."""
        written = result.written
        if len(written) == len(batch):
            for _, future in batch:
                if not future.done():
                    future.set_result(True)
            return
        for terms, future in batch:
            error = _refusal(terms.envelope_id, result)
            if error is not None:
                self._fail([(terms, future)], error)
            elif not future.done():
                future.set_result(terms.envelope_id in written)

    def on_failed(self, batch: list[_Waiting], error: Exception) -> None:
        """Fail all creates of the batch, saying whether it is known that nothing was written."""
        known = not is_lost(error)
        self._fail(batch, Unavailable("database_unavailable", "the database does not answer", outcome_known=known))

    def on_rejected(self, error: HongbaoError) -> None:
        """Fail all creates that wait for a lease."""
        waiting, self._ready = list(self._ready), deque()
        self.nonempty.clear()
        self._fail(waiting, error)

    def _fail(self, batch: Sequence[_Waiting], error: HongbaoError) -> None:
        for _, future in batch:
            if not future.done():
                future.set_exception(error)
                future.exception()  # retrieved here, because the caller may be gone


def _refusal(envelope_id: int, result: Inserted) -> HongbaoError | None:
    """Return why a header was refused; None if it was written, or if its ID existed before."""
    if envelope_id in result.without_tables:
        return Unavailable("day_tables_missing", "the tables of this business day are missing; operators know")
    if envelope_id in result.moved:
        return wrong_set()
    if envelope_id in result.bad:
        return Refused("malformed_request", "the database does not accept these terms; the money is returned shortly")
    return day_closed(day_of(envelope_id)) if envelope_id in result.closed else None


async def _insert(connection: Any, headers: Sequence[Terms], result: Inserted) -> None:
    """Insert the headers in one transaction; if a fence refuses it, in one for each day or database.

    If Postgres does not accept a row, in halves, until that create is alone.
    """
    try:
        result.written.update(await insert_envelopes(connection, headers))
    except Exception as error:
        parts = split_by_fence(headers, error, lambda terms: terms.envelope_id)
        if parts is None and is_bad_row(error):
            middle = len(headers) // 2
            parts = [list(headers[:middle]), list(headers[middle:])] if middle else [list(headers)]
        if parts is None:
            raise
        if len(parts) > 1:
            for part in parts:
                await _insert(connection, part, result)
            return
        _log.error("creates refused", reason=str(error), creates=len(headers))
        if moved_database(error) is not None:
            refused = result.moved
        elif closed_day(error) is not None:
            refused = result.closed
        else:
            refused = result.without_tables if lacks_tables(error) else result.bad
        refused.update(terms.envelope_id for terms in headers)
