"""How an operator's command changes what all processes go by: in the wallet's table, by compare and set."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from errors import Refused, Unavailable
from published.databases import WALLET, Databases, not_published
from published.documents import NAMES, TOPOLOGY, Document, keep
from published.switching import TRIES, Switching, closed_now
from runtime import logs
from runtime.login import login
from sharding.topology import Topology, as_text, check_topology, parse
from sharding.topology.file import check_successor, refuse_unknown
from switches.file import beside
from switches.file import parse as parse_switches
from switches.switch import Switch

_log = logs.get("published")


class Publisher:
    """Changes documents and keeps them in this host's files.

    `dsns`: of the wallet's database under "wallet" and of each SET's by name, as their owner; for `refresh` alone any
    role that reads will do. `who` stands in the rows.
    """

    def __init__(self, topology: Path, dsns: Mapping[str, str], who: str = "") -> None:
        self._topology = topology
        self._databases = Databases(dsns, who or login())
        self.behind: tuple[str, ...] = ()
        """The databases that have not taken the last change: of a topology, SETs, whose servers ask the wallet."""
        self.decisions: list[Switch] = []
        """What is decided about switches since the last change of them: also what was opened again lately."""

    @contextlib.asynccontextmanager
    async def keeping(self) -> AsyncIterator[None]:
        """Keep a connection to each database for the block: requests may wait for the changes in it."""
        async with self._databases.keeping():
            yield

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

        return parse((await self._change(successor, proof)).content.encode(), "the new topology")

    async def settle(self) -> Topology:
        """Publish the newest topology once more under the next version, and return it.

        Whoever read an earlier one and is about to publish its successor is refused from then on. So what this returns
        is decided, also after a change that was cancelled. Raises as `change_topology`.
        """
        return await self.change_topology(next_version)

    async def first_topology(self, topology: Topology) -> Topology:
        """Publish the first topology of an installation; if there is one, return that."""
        check_topology(topology)
        found = await self._change(lambda old: None if old is not None else as_text(topology))
        return parse(found.content.encode(), "the first topology")

    async def change_switches(self, how: Callable[[list[Switch]], Sequence[Switch]], now: datetime) -> list[Switch]:
        """Publish `how(the switches that are on)` and return those that are on after it; `behind` says where not.

        Switches are for bad hours: while the wallet's database is away the SETs that answer take them, and if none
        does, this host's file. What `how` leaves out is opened; all else that is found closed anywhere stays closed.
        Raises Unavailable `changed_meanwhile`, `not_kept`, and what `how` raises.
        """
        switching = Switching(self._databases, beside(self._topology))
        new = await switching.run(how, now)
        self.behind = switching.behind
        self.decisions = parse_switches(new.content, new.version).decisions
        await self._keep(new)
        return closed_now(new, now)

    async def refresh(self) -> None:
        """Bring this host's files up to what is published in any database that answers; errors are logged."""
        answers = (await self._databases.read_all(dict.fromkeys(NAMES, 0))).values()
        found = {one for answer in answers if not isinstance(answer, Exception) for one in answer}
        for one in sorted(found):
            try:
                await asyncio.to_thread(keep, one, self._topology)
            except (Refused, OSError) as error:
                _log.warning("a published document cannot be used", document=one.name, error=str(error))

    async def _change(
        self, successor: Callable[[Document | None], str | None], proof: Callable[[], Awaitable[None]] | None = None
    ) -> Document:
        """Publish what `successor` returns for the newest topology; if None, bring all databases up to the newest."""
        for _ in range(TRIES):
            newest = await self._newest_topology()
            content = successor(newest)
            if content is not None:
                if proof is not None:
                    await proof()
                new = Document(TOPOLOGY, parse(content.encode(), "the new topology").version, content)
            elif newest is not None:
                new = newest
            else:
                raise Refused("nothing_published", "no topology is published yet")
            if await self._databases.put(WALLET, new) or (content is None and await self._has(new)):
                break
        else:
            raise Unavailable("changed_meanwhile", f"others changed the topology {TRIES} times meanwhile; try again")
        sets = [one for one in self._databases.names if one != WALLET]
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

    async def _newest_topology(self) -> Document | None:
        """Return the newest in any database that answers, and in this host's file.

        Raises Unavailable `not_published` if the wallet's database does not answer.
        """
        found: list[Document] = []
        with contextlib.suppress(
            Refused, OSError, UnicodeDecodeError
        ):  # a damaged file is replaced by what is published
            text = self._topology.read_text(encoding="utf-8")
            found.append(Document(TOPOLOGY, parse(text.encode(), self._topology).version, text))
        for database, answer in (await self._databases.read_all({TOPOLOGY: 0})).items():
            if not isinstance(answer, Exception):
                found += answer
            elif database == WALLET:
                raise not_published(WALLET, answer, ", and only there can it be changed") from answer
            else:
                _log.debug("not asked for what is published", database=database, error=str(answer))
        # Of one version they are the same; the file comes first, as it was read.
        return max(found, key=lambda one: one.version, default=None)

    async def _has(self, document: Document) -> bool:
        """Say whether the wallet's table has this version: not after a restore to an earlier instant."""
        found = await self._databases.read(WALLET, {document.name: 0})
        return any(one.version >= document.version for one in found)

    async def _copy(self, database: str, document: Document) -> str:
        """Bring a SET up to a document; returns its name if it did not answer, else ""."""
        try:
            await self._databases.put(database, document)
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
