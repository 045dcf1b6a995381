"""What no rule removes. It is shown with its size, so that operators see it grow."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from retention.held import Held, size_of


class ForEver:
    """Files or folders below `where`."""

    def __init__(self, name: str, where: Path, rule: str, items: Callable[[], Iterable[Path]]) -> None:
        self.name = name
        self.rule = rule
        self._where = where
        self._items = items

    async def look(self) -> Held:
        """Say what is held."""
        return await asyncio.to_thread(self._look)

    def _look(self) -> Held:
        found = [path for path in self._items() if path.exists()]
        oldest = min((path.stat().st_mtime for path in found), default=None)
        size = sum(map(size_of, found))
        when = None if oldest is None else datetime.fromtimestamp(oldest, UTC)
        return Held(self.name, str(self._where), self.rule, items=len(found), bytes=size, oldest=when)

    async def remove(self, held: Held) -> Held:
        """Remove nothing: nothing is past its rule."""
        return held
