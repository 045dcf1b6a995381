"""How a process hears of newer documents, keeps them in its host's files, and tells others."""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from errors import HongbaoError, Refused
from published import table
from published.documents import NAMES, Document, keep
from runtime import logs
from runtime.postgres import Connection
from wire.link import Link
from wire.messages import Op
from wire.versions import PUBLISHED

_log = logs.get("published")


class Follower:
    """The newest documents that a process knows. It reads the files itself (`TopologyFile`, `Switchboard`)."""

    def __init__(self, topology: Path) -> None:
        self._topology = topology
        self._known: dict[str, Document] = {}
        self._complained: dict[str, str] = {}
        self._taking = asyncio.Lock()

    @property
    def versions(self) -> dict[str, int]:
        """The version of each document that this process has read; 0 if none, though this host's files may have one."""
        return dict.fromkeys(NAMES, 0) | {name: one.version for name, one in self._known.items()}

    async def look_in(self, connection: Connection) -> bool:
        """Read newer rows; returns whether a file was written."""
        return await self.take(await table.newer(connection, self.versions))

    async def ask(self, link: Link) -> bool:
        """Ask another process for what it knows and we do not; returns whether a file was written.

        A process of a release before has nothing to tell, and is not asked.
        """
        if PUBLISHED not in link.peer.capabilities:
            return False
        found, *_ = await link.call(Op.PUBLISHED, [list(one) for one in self.versions.items()])
        return await self.take(Document(name, version, content) for name, version, content, *_ in found)

    def answer(self, args: list[Any]) -> list[Document]:
        """Return what a caller of `Op.PUBLISHED` does not know; raises Refused `malformed_request`."""
        try:
            known: Mapping[str, int] = {str(name): int(version) for name, version, *_ in args[0]}
        except (IndexError, TypeError, ValueError):
            raise Refused("malformed_request", "documents are asked for by name and version") from None
        return [one for name, one in self._known.items() if name in known and one.version > known[name]]

    async def take(self, documents: Iterable[Document]) -> bool:
        """Keep those that are newer in this host's files; one that cannot be used is logged once and left."""
        async with self._taking:
            return await self._take(documents)

    async def _take(self, documents: Iterable[Document]) -> bool:
        written = False
        for one in documents:
            before = self._known.get(one.name)
            if before is not None and before.version >= one.version:
                continue
            try:
                written |= await asyncio.to_thread(keep, one, self._topology)
            except (HongbaoError, OSError) as error:
                said = f"{one.name} version {one.version}: {error}"
                if self._complained.get(one.name) != said:
                    self._complained[one.name] = said
                    _log.error("a published document cannot be used", document=said)
                continue
            self._known[one.name] = one
            _log.info("published", document=one.name, version=one.version)
        return written
