"""Keeps parts alive: one that ends by itself is started again, after a pause that grows, and never silently."""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Iterable

from cluster.supervision.parts import Part
from envelope.errors import HongbaoError, Refused

FIRST_PAUSE_S, MAX_PAUSE_S = 0.1, 10.0
CALM_S = 30.0
"""A part that ran this long before it ended is not in a crash loop: its pause begins anew."""
TIDY_S = 10.0

Say = Callable[[str], None]


class _Member:
    """A part, whether it is wanted up, and how often it ended lately."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.wanted = asyncio.Event()
        self.wanted.set()
        # Between somebody's restart and ours.
        self.lock = asyncio.Lock()
        self._ends = 0
        self._last_end = 0.0

    def pause_s(self) -> float:
        """Return how long to wait after this end: doubling, with jitter."""
        now = time.monotonic()
        self._ends = 0 if now - self._last_end > CALM_S else self._ends + 1
        self._last_end = now
        pause: float = min(MAX_PAUSE_S, FIRST_PAUSE_S * 2 ** min(self._ends, 10))
        return pause * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, no secret


class Supervisor:
    """Watches started parts between `start` and `close`; stopping them is the owner's."""

    def __init__(self, parts: Iterable[Part], say: Say, changed: Callable[[], None]) -> None:
        self._members = {part.name: _Member(part) for part in parts}
        self._say = say
        self._changed = changed
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._task = asyncio.create_task(self._run(), name="supervisor")

    async def close(self) -> None:
        """Stop watching; the parts are left as they are."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def restart(self, name: str) -> None:
        """Stop a part in good order, or take a dead one, and start it."""
        member = self._member(name)
        async with member.lock:
            member.wanted.clear()
            await member.part.stop()
            await member.part.start()
            member.wanted.set()
        self._changed()

    def kill(self, name: str, *, stay_dead: bool = False) -> None:
        """Kill a part as a crash would; it is started again unless it is to stay dead until `restart`."""
        member = self._member(name)
        if stay_dead:
            member.wanted.clear()
        member.part.kill()

    def _member(self, name: str) -> _Member:
        if name not in self._members:
            raise Refused("no_such_part", f"there is no {name!r}; there are {', '.join(self._members)}")
        return self._members[name]

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for member in self._members.values():
                group.create_task(self._keep(member))
            group.create_task(self._tidy())

    async def _keep(self, member: _Member) -> None:
        part = member.part
        while True:
            await member.wanted.wait()
            status = await part.wait()
            if part.running or not member.wanted.is_set():
                continue
            pause = member.pause_s()
            self._say(f"{part.name} ended ({_how(status)}); starting it again in {pause:.1f} s; log: {part.log.path}")
            await asyncio.sleep(pause)
            async with member.lock:
                if part.running or not member.wanted.is_set():
                    continue
                try:
                    await part.start()
                except HongbaoError as error:
                    self._say(f"{part.name} did not start: {error.detail}")
                else:
                    self._say(f"{part.name} is back (process {part.pid})")
                    self._changed()

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(TIDY_S)
            for member in self._members.values():
                member.part.log.bound()


def _how(status: int) -> str:
    return f"killed by signal {-status}" if status < 0 else f"exit status {status}"
