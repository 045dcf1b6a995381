"""Says which parts run and do not answer: a process that was stopped or hangs never ends by itself.

It is not restarted for that: a server whose Postgres is slow would be killed for what is not its fault. The operator
hears when it begins and when it is over.
"""

import asyncio
import time
from collections.abc import Iterable

from local.part import Part
from local.supervisor_log import Notify

EVERY_S = 5.0
SILENT_ROUNDS = 2
"""A part that misses one probe may have been busy, or may just be starting."""


async def watch_answers(parts: Iterable[Part], notify: Notify) -> None:
    """Ask all parts every EVERY_S, until cancelled."""
    watched = [_Watched(part) for part in parts]
    while True:
        await asyncio.sleep(EVERY_S)
        await asyncio.gather(*(one.look(notify) for one in watched))


class _Watched:
    """A part, and since when it has not answered."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._missed = 0
        self._since = 0.0

    async def look(self, notify: Notify) -> None:
        """Ask once; report the second miss in a row, and the first answer after it."""
        asked = time.monotonic()
        pid = self._part.pid
        if not self._part.running or await self._part.answers() or pid != self._part.pid:
            if self._missed >= SILENT_ROUNDS and self._part.running:
                notify(f"{self._part.name} answers again after {time.monotonic() - self._since:.0f} s")
            self._missed = 0
            return
        if self._missed == 0:
            self._since = asked
        self._missed += 1
        if self._missed == SILENT_ROUNDS:
            silent_s = time.monotonic() - self._since
            notify(
                f"{self._part.name} runs and has not answered for {silent_s:.0f} s (process {pid}); it is left as it "
                f"is. It may be busy, as this machine may be; its log is {self._part.log.path}"
            )
