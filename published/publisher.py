"""How an operator's command changes what all processes go by: in the wallet's table, by compare and set."""

import asyncio
import contextlib
import getpass
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from errors import Refused, Unavailable
from published import table
from published.documents import NAMES, SWITCHES, TOPOLOGY, Document, keep
from runtime import logs, postgres
from runtime.postgres import Connection
from sharding.topology import Topology, as_text, check_topology, parse
from sharding.topology.file import check_successor, refuse_unknown
from switches import file as switch_file
from switches.switch import Switch

WALLET: Final = "wallet"
TRIES: Final = 5
"""Others who change the same document come between that often, then it is given up."""
DECIDE_S: Final = 5.0
"""Longest wait for the wallet's database, which decides."""
COPY_S: Final = 1.0
"""Longest wait for a SET's: requests may wait for the change (`moving`), and its servers ask the wallet, too."""

_log = logs.get("published")


class Publisher:
    """Changes documents and keeps them in this host's files.

    `dsns`: of the wallet's database under "wallet" and of each SET's by name, as their owner; for `refresh` alone any
    role that reads will do. `who` stands in the rows.
    """

    def __init__(self, topology: Path, dsns: Mapping[str, str], who: str = "") -> None:
        self._topology = topology
        self._dsns = dsns
        self._who = who or getpass.getuser()
        self._kept: dict[str, postgres.Session] = {}
        self.behind: tuple[str, ...] = ()
        """The SETs that did not answer at the last change: their servers hear of it from the wallet."""

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

    async def change_topology(
        self, how: Callable[[Topology], Topology], proof: Callable[[], Awaitable[None]] | None = None
    ) -> Topology:
        """Publish `how(the newest topology)` and return it; if that is the same, nothing is written.

        `how` may be called again, if another change came between. `proof` is awaited after the newest was read and
        before its successor is written; it raises if this process may not change it any more. Whoever takes that right
        away publishes a version of its own (`settle`), so that a process that sleeps after its proof is refused.

        Durable in the wallet's database when it returns, and in this host's file; SETs that answer have it, too. Raises
        Unavailable `changed_meanwhile`, `not_published` (its outcome may be unknown), `not_kept` (published, and not
        written here); Refused `topology_invalid`; what `how` and `proof` raise. If it is cancelled, or its outcome is
        unknown, it may be published or not: `settle` decides it.
        """

        def successor(old: Document | None) -> str | None:
            before = _topology_in(old)
            new = how(before)
            if new == before:
                return None
            if old is not None:
                refuse_unknown(old.content.encode(), "the published topology")
            check_topology(new)
            check_successor(before, new)
            return as_text(new)

        return parse((await self._change(TOPOLOGY, successor, proof=proof)).content.encode(), "the new topology")

    async def settle(self) -> Topology:
        """Publish the newest topology once more under the next version, and return it.

        Whoever read an earlier one and is about to publish its successor is refused from then on. So what this returns
        is decided, also after a change that was cancelled. Raises as `change_topology`.
        """
        return await self.change_topology(next_version)

    async def first_topology(self, topology: Topology) -> Topology:
        """Publish the first topology of an installation; if there is one, return that."""
        check_topology(topology)
        found = await self._change(TOPOLOGY, lambda old: None if old is not None else as_text(topology))
        return parse(found.content.encode(), "the first topology")

    async def change_switches(self, how: Callable[[list[Switch]], Sequence[Switch]], now: datetime) -> list[Switch]:
        """Publish `how(the switches that are on)` and return it.

        Switches are for bad hours: while the wallet's database is away the SETs that answer take them, and of two
        operators who change them at once in such an hour the last one wins. Raises as `change_topology`.
        """

        def successor(old: Document | None) -> str:
            before = switch_file.parse(old.content) if old is not None else []
            return switch_file.as_text(how([one for one in before if one.until > now]))

        return switch_file.parse((await self._change(SWITCHES, successor, decided=False)).content)

    async def refresh(self) -> None:
        """Bring this host's files up to what is published in any database that answers; errors are logged."""
        found = await self._newest(NAMES)
        for one in found.values():
            try:
                await asyncio.to_thread(keep, one, self._topology)
            except (Refused, OSError) as error:
                _log.warning("a published document cannot be used", document=one.name, error=str(error))

    async def _change(
        self,
        name: str,
        successor: Callable[[Document | None], str | None],
        *,
        decided: bool = True,
        proof: Callable[[], Awaitable[None]] | None = None,
    ) -> Document:
        """Publish what `successor` returns for the newest version; None leaves it, and brings databases up to it.

        `decided`: only if the wallet's database takes it; else any database will do.
        """
        for _ in range(TRIES):
            newest = (await self._newest((name,), must_have=WALLET if decided else "")).get(name)
            content = successor(newest)
            if content is not None:
                if proof is not None:
                    await proof()
                new = Document(name, _version_in(name, content, newest), content)
            elif newest is not None:
                new = newest
            else:
                raise Refused("nothing_published", f"no {name} is published yet")
            try:
                if await self._put(WALLET, new, DECIDE_S) or (content is None and await self._has(new)):
                    break
            except Unavailable as away:
                if decided:
                    raise
                _log.warning("the wallet's database is given it by the next change", error=away.detail)
                break
        else:
            raise Unavailable("changed_meanwhile", f"others changed the {name} {TRIES} times meanwhile; try again")
        sets = [one for one in self._dsns if one != WALLET]
        self.behind = tuple(filter(None, await asyncio.gather(*(self._copy(one, new) for one in sets))))
        await self._keep(new)
        return new

    async def _keep(self, document: Document) -> None:
        try:
            await asyncio.to_thread(keep, document, self._topology)
        except OSError as error:
            raise Unavailable(
                "not_kept",
                f"version {document.version} of the {document.name} is published, and {self._topology.parent} cannot "
                f"be written ({error.strerror}): other hosts go by it, this one by the one before until there is room",
                outcome_known=False,
            ) from error

    async def _newest(self, names: Iterable[str], must_have: str = "") -> dict[str, Document]:
        """Return the newest of each document in any database that answers, and in this host's topology file.

        Raises Unavailable `not_published` if the database `must_have` does not answer.
        """
        known = dict.fromkeys(names, 0)
        answers = await asyncio.gather(
            *(self._read(one, known, DECIDE_S if one == WALLET else COPY_S) for one in self._dsns),
            return_exceptions=True,
        )
        found: dict[str, Document] = {}
        if TOPOLOGY in known and self._topology.exists():
            with contextlib.suppress(Refused, UnicodeDecodeError):  # a damaged file is replaced by what is published
                text = self._topology.read_text(encoding="utf-8")
                found[TOPOLOGY] = Document(TOPOLOGY, parse(text.encode(), self._topology).version, text)
        for database, answer in zip(self._dsns, answers, strict=True):
            if isinstance(answer, BaseException):
                if not isinstance(answer, Exception):
                    raise answer
                if database == must_have:
                    raise _not_published(answer) from answer
                _log.debug("not asked for what is published", database=database, error=str(answer))
                continue
            for one in answer:
                if one.name not in found or one.version > found[one.name].version:
                    found[one.name] = one
        return found

    async def _read(self, database: str, known: Mapping[str, int], limit_s: float) -> list[Document]:
        async with asyncio.timeout(limit_s), self._connection(database) as connection:
            return await table.newer(connection, known)

    async def _has(self, document: Document) -> bool:
        """Say whether the wallet's table has this version: not after a restore to an earlier instant."""
        return any(one.version >= document.version for one in await self._read(WALLET, {document.name: 0}, DECIDE_S))

    async def _put(self, database: str, document: Document, limit_s: float) -> bool:
        try:
            async with asyncio.timeout(limit_s), self._connection(database) as connection:
                return await table.put(connection, document, self._who)
        except Exception as error:
            if isinstance(error, TimeoutError) or postgres.is_lost(error) or isinstance(error, Unavailable):
                raise _not_published(error) from error
            raise

    async def _copy(self, database: str, document: Document) -> str:
        """Bring a SET up to a document; returns its name if it did not answer, else ""."""
        try:
            await self._put(database, document, COPY_S)
        except Unavailable as error:
            _log.warning("not published there yet", database=database, document=document.name, error=error.detail)
            return database
        return ""


def _topology_in(document: Document | None) -> Topology:
    if document is None:
        raise Refused("nothing_published", "no topology is published yet: hongbao topology apply publishes the first")
    return parse(document.content.encode(), "the published topology")


def next_version(topology: Topology) -> Topology:
    """Return the same topology as its own successor."""
    return msgspec.structs.replace(topology, version=topology.version + 1)


def _version_in(name: str, content: str, newest: Document | None) -> int:
    """Return the version of a new document: a topology names its own, others are counted."""
    if name == TOPOLOGY:
        return parse(content.encode(), "the new topology").version
    return newest.version + 1 if newest is not None else 1


def _not_published(error: Exception) -> Unavailable:
    return Unavailable(
        "not_published",
        f"the wallet's database does not answer ({type(error).__name__}: {error}), and only there can it be changed; "
        "look at it with `topology show` or `switch list` before you try again",
        outcome_known=False,
    )
