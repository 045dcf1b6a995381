"""Files that nobody writes to any more: full journals, and logs of parts that are gone."""

import asyncio
import dataclasses
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from retention.held import Held, size_of

Now = Callable[[], datetime]


def machine_now() -> datetime:
    """Return the machine's time: files carry it, in a sandbox as well."""
    return datetime.now(UTC)


class OldFiles:
    """Files of a folder that were last written to more than `days` ago (0: none); `files` names those that may go."""

    def __init__(
        self, name: str, folder: Path, files: Callable[[], Iterable[Path]], days: int, now: Now = machine_now
    ) -> None:
        self.name = name
        self.rule = f"{days} days after the last line" if days else "for ever"
        self._folder = folder
        self._files = files
        self._days = days
        self._now = now

    async def look(self) -> Held:
        """Say what is held."""
        return await asyncio.to_thread(self._look)

    def _look(self) -> Held:
        stood = [(path, path.stat()) for path in sorted(self._files()) if path.is_file()]
        before = (self._now() - timedelta(days=self._days)).timestamp() if self._days else float("-inf")
        past = [(path, stat.st_size) for path, stat in stood if stat.st_mtime < before]
        oldest = min((stat.st_mtime for _, stat in stood), default=None)
        return Held(
            self.name,
            str(self._folder),
            self.rule,
            items=len(stood),
            bytes=sum(stat.st_size for _, stat in stood),
            oldest=None if oldest is None else datetime.fromtimestamp(oldest, UTC),
            past=len(past),
            past_bytes=sum(size for _, size in past),
            names=[path.name for path, _ in past],
        )

    async def remove(self, held: Held) -> Held:
        """Remove what was named, but for a file that has been written to since."""
        still = set((await self.look()).names)
        names = [name for name in held.names if name in still]
        size = 0
        for name in names:
            path = self._folder / name
            size += size_of(path)
            path.unlink(missing_ok=True)
        return dataclasses.replace(held, past=len(names), past_bytes=size, names=names)
