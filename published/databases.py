"""The databases in which documents are published, the wallet's and the SETs': read and written within bounds."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Final

from errors import Unavailable
from published import table
from published.documents import Document
from runtime import postgres
from runtime.postgres import Connection

WALLET: Final = "wallet"
DECIDE_S: Final = 5.0
"""Longest wait for the wallet's database, which decides."""
COPY_S: Final = 1.0
"""Longest wait for a SET's: requests may wait for the change (`moving`), and its servers ask the wallet, too."""


class Databases:
    """`dsns`: of the wallet's database under "wallet" and of each SET's by name. `who` stands in the rows."""

    def __init__(self, dsns: Mapping[str, str], who: str) -> None:
        self._dsns = dsns
        self._who = who
        self._kept: dict[str, postgres.Session] = {}

    @property
    def names(self) -> list[str]:
        """All of them, the wallet's first if there is one; in the same order on every host."""
        return sorted(self._dsns, key=lambda name: (name != WALLET, name))

    @contextlib.asynccontextmanager
    async def keeping(self) -> AsyncIterator[None]:
        """Keep a connection to each database for the block: requests may wait for the changes in it."""
        self._kept = {name: postgres.Session(dsn) for name, dsn in self._dsns.items()}
        await asyncio.gather(*(one.use() for one in self._kept.values()), return_exceptions=True)
        try:
            yield
        finally:
            kept, self._kept = self._kept, {}
            await asyncio.gather(*(one.close() for one in kept.values()))

    @contextlib.asynccontextmanager
    async def _connection(self, database: str) -> AsyncIterator[Connection]:
        if (kept := self._kept.get(database)) is None:
            async with postgres.connected(self._dsns[database]) as connection:
                yield connection
            return
        try:
            yield await kept.use()
        except BaseException:
            kept.drop()  # a statement may be under way on it
            raise

    async def read(self, database: str, known: Mapping[str, int]) -> list[Document]:
        """Return the newest of each document above the version known."""
        async with asyncio.timeout(_limit_s(database)), self._connection(database) as connection:
            return await table.newer(connection, known)

    async def read_all(self, known: Mapping[str, int]) -> dict[str, list[Document] | Exception]:
        """Read in all databases at once; returns for each what it has, or why it did not answer."""
        answers = await asyncio.gather(*(self.read(one, known) for one in self._dsns), return_exceptions=True)
        found: dict[str, list[Document] | Exception] = {}
        for database, answer in zip(self._dsns, answers, strict=True):
            if isinstance(answer, BaseException) and not isinstance(answer, Exception):
                raise answer
            found[database] = answer
        return found

    async def put(self, database: str, document: Document) -> bool:
        """Insert a version; False if that one, or a later one, is there. Raises Unavailable `not_published`."""
        try:
            async with asyncio.timeout(_limit_s(database)), self._connection(database) as connection:
                return await table.put(connection, document, self._who)
        except Exception as error:
            if isinstance(error, TimeoutError) or postgres.is_lost(error) or isinstance(error, Unavailable):
                raise not_published(database, error) from error
            raise


def not_published(database: str, error: Exception, why_there: str = "") -> Unavailable:
    """Return what a command says if a database does not answer while it publishes there."""
    whose = "wallet's database" if database == WALLET else f"database of {database}"
    return Unavailable(
        "not_published",
        f"the {whose} does not answer ({type(error).__name__}: {error}){why_there}; look at it with `topology show` or "
        "`switch list` before you try again",
        outcome_known=False,
    )


def _limit_s(database: str) -> float:
    return DECIDE_S if database == WALLET else COPY_S
