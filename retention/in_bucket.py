"""Base copies and archives that are in an object store."""

import asyncio

from archive import store
from archive.bucket import layout
from backup.bucket.shelf import PrunePlan, Shelf
from objectstore.bucket import Bucket
from objectstore.bucket import Held as Stored
from retention.held import Held, changed_meanwhile


class CopiesInBucket:
    """As `retention.copies.Copies`."""

    def __init__(self, root: Bucket, server: str, keep: int) -> None:
        self.name = f"backups of {server}"
        self.rule = f"the newest {keep}, and the log since"
        self._shelf = Shelf(root, server)
        self._keep = keep

    async def look(self) -> Held:
        """Say what is held; raises as `objectstore`, and Refused `backup_unreadable`."""
        return await asyncio.to_thread(self._look)

    def _look(self) -> Held:
        shelf, plan = self._shelf, self._shelf.plan_prune(self._keep)
        copies = shelf.copies()
        return Held(
            self.name,
            str(shelf.place),
            self.rule,
            items=len(copies),
            bytes=_size(list(shelf.place.listed())),
            oldest=copies[0].taken_at if copies else None,
            past=len(_names(plan)),
            past_bytes=plan.bytes,
            names=_names(plan),
        )

    async def remove(self, held: Held) -> Held:
        """Remove what was named; raises Refused `changed_meanwhile` if a copy was put or is gone since."""
        plan = await asyncio.to_thread(self._shelf.plan_prune, self._keep)
        if _names(plan) != held.names:
            raise changed_meanwhile(self.name)
        await asyncio.to_thread(self._shelf.prune, plan)
        return held


class ArchiveInBucket:
    """Archived days, which no rule removes. `items` counts days and databases, as in a folder."""

    def __init__(self, root: Bucket, rule: str) -> None:
        self.name = "archive"
        self.rule = rule
        self._root = root

    async def look(self) -> Held:
        """Say what is held; raises as `objectstore`."""
        return await asyncio.to_thread(self._look)

    def _look(self) -> Held:
        stored = [one for place in layout.PLACES for one in self._root.listed(place)]
        return Held(
            self.name,
            str(self._root),
            self.rule,
            items=len(store.archived(self._root)),
            bytes=_size(stored),
            oldest=min((one.put_at for one in stored), default=None),
        )

    async def remove(self, held: Held) -> Held:
        """Remove nothing: nothing is past its rule."""
        return held


def _size(stored: list[Stored]) -> int:
    return sum(one.size for one in stored)


def _names(plan: PrunePlan) -> tuple[str, ...]:
    return (*(one.name for one in plan.copies), *plan.segments, *plan.leftovers)
