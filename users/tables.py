"""Reads what one business day of a SET's tables holds of one user: the counterpart of `archive.of_user`."""

from collections.abc import AsyncIterator, Callable, Collection
from datetime import date
from typing import Any

from archive.of_user import Counts
from audit.snapshot import of_day
from runtime import sql
from runtime.postgres import Connection
from sharding.ids import end_id, first_id
from sharding.slots import MAX_SLOTS
from users.limits import BATCH

_HEADERS, _CLAIMS, _GUESTS, _CLOSINGS, _RECEIVERS = (
    sql.read("users", name) for name in ("headers", "claims", "guests", "closings", "receivers")
)
_EVERY_SLOT = range(MAX_SLOTS)


class UserInTables:
    """What a day's tables hold of a user. Instants are in ms; cursors need a transaction, which the caller opens.

    Without `through` the day's own tables are read, hot or detached, and by default all slots, whoever has them.
    """

    def __init__(
        self,
        connection: Connection,
        day: date,
        user: str,
        slots: Collection[int] = _EVERY_SLOT,
        through: Callable[[str], str] | None = None,
    ) -> None:
        self._connection = connection
        self._user = user
        self._bounds = first_id(day), end_id(day), list(slots)
        self._through = through or (lambda query: of_day(query, day))

    async def count(self) -> Counts:
        """Return how many rows have the name."""
        counts = []
        for query in (_HEADERS, _CLAIMS, _GUESTS):
            counted = f"SELECT count(*) FROM ({self._through(query)}) AS found"  # noqa: S608 - our own statements
            more: list[list[int]] = [[]] if query is _HEADERS else []
            counts.append(await self._connection.fetchval(counted, *self._bounds, self._user, *more))
        return Counts(*counts)

    def headers(self, invited_to: Collection[int] = ()) -> AsyncIterator[dict[str, Any]]:
        """Yield the headers sent by the user, and those of the named envelopes `invited_to`, as `archive.stream`."""
        return self._rows(_HEADERS, self._user, list(invited_to))

    def claims(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the user's claims: envelope_id, seq, amount_fen, at_ms."""
        return self._rows(_CLAIMS, self._user)

    def guests(self) -> AsyncIterator[dict[str, Any]]:
        """Yield where the user is a guest: envelope_id, invited, wrong_tries."""
        return self._rows(_GUESTS, self._user)

    def closings(self, envelope_ids: Collection[int]) -> AsyncIterator[dict[str, Any]]:
        """Yield the closing entries of these envelopes: envelope_id, seq, kind, amount_fen, at_ms."""
        return self._rows(_CLOSINGS, list(envelope_ids))

    def receivers(self, envelope_ids: Collection[int]) -> AsyncIterator[dict[str, Any]]:
        """Yield the users named by these envelopes: envelope_id, user_id."""
        return self._rows(_RECEIVERS, list(envelope_ids))

    async def _rows(self, query: str, *args: Any) -> AsyncIterator[dict[str, Any]]:
        async for row in self._connection.cursor(self._through(query), *self._bounds, *args, prefetch=BATCH):
            yield dict(row)
