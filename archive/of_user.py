"""Reads what an archive holds of one user: headers, claims, guests; in order, in bounded memory. DuckDB in a thread.

The archive's signature, and that the register names it, are checked by the caller, who reads its manifest.
"""

from collections.abc import AsyncIterator, Collection
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from archive import engine, stream
from archive.details import in_ms
from archive.kept_in import Where
from archive.limits import ROWS_PER_FETCH, THREADS_IN_ORDER
from archive.tables import FILES, in_parquet
from archive.threads import run_blocking
from schema.names import TableKind

if TYPE_CHECKING:
    import duckdb

_COUNT = f"""
SELECT (SELECT count(*) FROM {in_parquet()} WHERE sender = ?),
    (SELECT count(*) FROM {in_parquet()} WHERE user_id = ?),
    (SELECT count(*) FROM {in_parquet()} WHERE user_id = ?)
"""  # noqa: S608 - ours
_HEADERS = (
    f"SELECT * FROM ({stream.HEADERS}) WHERE sender = ? OR (named AND envelope_id IN (SELECT unnest(?::BIGINT[])))"  # noqa: S608 - ours
)
_CLAIMS = f"""
SELECT envelope_id, seq, amount_fen, {in_ms("claimed_at")} AS at_ms FROM {in_parquet()} WHERE user_id = ?
"""  # noqa: S608 - our own column names
_GUESTS = f"SELECT envelope_id, invited, wrong_tries FROM {in_parquet()} WHERE user_id = ?"  # noqa: S608 - ours
_CLOSINGS = f"""
SELECT envelope_id, seq, kind, amount_fen, {in_ms("claimed_at")} AS at_ms FROM {in_parquet()}
WHERE kind <> 'open' AND envelope_id IN (SELECT unnest(?::BIGINT[]))
"""  # noqa: S608 - our own column names
_RECEIVERS = f"""
SELECT envelope_id, user_id FROM {in_parquet()} WHERE invited AND envelope_id IN (SELECT unnest(?::BIGINT[]))
"""  # noqa: S608 - ours


class Counts(NamedTuple):
    """How many rows have a user's name: headers as the sender, claims, guests."""

    headers: int
    claims: int
    guests: int


class UserInArchive:
    """What the archive opened at `where` holds of a user; rows as dicts, instants as `*_ms`.

    Used in a `with` block. Every method raises Refused `archive_corrupt` if a file cannot be read.
    """

    def __init__(self, where: Where, user: str) -> None:
        self._where = where
        self._user = user
        self._duck: duckdb.DuckDBPyConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._duck is not None:
            self._duck.close()

    async def count(self) -> Counts:
        """Return how many rows have the name; reads the columns of names alone."""
        args: list[object] = []
        for kind in (TableKind.ENVELOPE, TableKind.CLAIM, TableKind.GUEST):
            args += [self._file(kind), self._user]
        ((headers, claims, guests),) = [row async for row in self._rows(_COUNT, args)]
        return Counts(headers, claims, guests)

    def headers(self, invited_to: Collection[int] = ()) -> AsyncIterator[dict[str, Any]]:
        """Yield the headers sent by the user, and those of the named envelopes `invited_to`, as `stream.headers`."""
        return self._dicts(_HEADERS, [self._file(TableKind.ENVELOPE), self._user, list(invited_to)])

    def claims(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the user's claims: envelope_id, seq, amount_fen, at_ms."""
        return self._dicts(_CLAIMS, [self._file(TableKind.CLAIM), self._user])

    def guests(self) -> AsyncIterator[dict[str, Any]]:
        """Yield where the user is a guest: envelope_id, invited, wrong_tries."""
        return self._dicts(_GUESTS, [self._file(TableKind.GUEST), self._user])

    def closings(self, envelope_ids: Collection[int]) -> AsyncIterator[dict[str, Any]]:
        """Yield the closing entries of these envelopes: envelope_id, seq, kind, amount_fen, at_ms."""
        return self._dicts(_CLOSINGS, [self._file(TableKind.CLAIM), list(envelope_ids)])

    def receivers(self, envelope_ids: Collection[int]) -> AsyncIterator[dict[str, Any]]:
        """Yield the users named by these envelopes: envelope_id, user_id."""
        return self._dicts(_RECEIVERS, [self._file(TableKind.GUEST), list(envelope_ids)])

    def _file(self, kind: TableKind) -> str:
        return str(self._where / FILES[kind])

    async def _dicts(self, query: str, args: list[object]) -> AsyncIterator[dict[str, Any]]:
        names: list[str] = []
        async for row in self._rows(query, args, names):
            yield dict(zip(names, row, strict=True))

    async def _rows(
        self, query: str, args: list[object], names: list[str] | None = None
    ) -> AsyncIterator[tuple[Any, ...]]:
        if self._duck is None:
            self._duck = await run_blocking(engine.connect, threads=THREADS_IN_ORDER, reads=self._where)
        cursor = self._duck.cursor()
        try:
            with engine.reading(self._where):
                await run_blocking(cursor.execute, query, args)
                if names is not None:
                    names += [column[0] for column in cursor.description or ()]
                while rows := await run_blocking(cursor.fetchmany, ROWS_PER_FETCH):
                    for row in rows:
                        yield row
        finally:
            cursor.close()
