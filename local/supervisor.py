"""Keeps parts alive: a part that ends by itself is started again after a pause that grows, and the operator sees it."""

import asyncio
import errno
import random
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from errors import HongbaoError, Refused
from local.answers import watch_answers
from local.part import Part
from local.supervisor_log import ENDED, Notify

FIRST_PAUSE_S, MAX_PAUSE_S = 0.1, 10.0
STABLE_S = 30.0
"""A part that ran this long before it ended is not in a crash loop: its next pause is the first one again."""
LOG_CHECK_S = 10.0


class _SupervisedPart:
    """A part, whether it should run, and how often it has ended lately."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.should_run = asyncio.Event()
        self.should_run.set()
        # Held during a start or stop: an operator's restart and the supervisor's must not run at once.
        self.lock = asyncio.Lock()
        self.since = datetime.now(UTC)
        self.restarts = 0
        self._ends = 0
        self._last_end = 0.0

    def note_restart(self) -> None:
        """Record that the part has just been started again."""
        self.since = datetime.now(UTC)
        self.restarts += 1

    def pause_s(self) -> float:
        """Record an end now; returns how long to wait before the next start: doubling, with jitter."""
        now = time.monotonic()
        self._ends = 0 if now - self._last_end > STABLE_S else self._ends + 1
        self._last_end = now
        pause: float = min(MAX_PAUSE_S, FIRST_PAUSE_S * 2 ** min(self._ends, 10))
        return pause * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, no secret


class Supervisor:
    """Watches started parts between `start` and `close`; it does not stop them. `on_change`: after each restart."""

    def __init__(self, parts: Iterable[Part], notify: Notify, on_change: Callable[[], None]) -> None:
        self._members = {part.name: _SupervisedPart(part) for part in parts}
        self._notify = notify
        self._on_change = on_change
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin watching."""
        self._task = asyncio.create_task(self._run(), name="supervisor")

    async def close(self) -> None:
        """Stop watching; the parts are left as they are. Never raises: the parts are stopped afterwards."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            if not self._task.cancelled() and (error := self._task.exception()) is not None:
                self._notify(f"supervision had ended: {error!r}")

    async def restart(self, name: str) -> None:
        """Restart the part if it runs, else start it; raises Refused `no_such_part` or what the start raises."""
        member = self._member(name)
        async with member.lock:
            member.should_run.clear()
            try:
                await (member.part.restart() if member.part.running else member.part.start())
                member.note_restart()
            finally:
                member.should_run.set()
        self._on_change()

    def kill(self, name: str, *, stay_dead: bool = False) -> None:
        """Kill a part as a crash would. It is started again; with `stay_dead` only `restart` starts it."""
        member = self._member(name)
        if stay_dead:
            member.should_run.clear()
        member.part.kill()

    def history(self, name: str) -> tuple[datetime, int]:
        """Return the time of a part's last start and the number of its restarts."""
        member = self._member(name)
        return member.since, member.restarts

    def _member(self, name: str) -> _SupervisedPart:
        if name not in self._members:
            raise Refused("no_such_part", f"there is no {name!r}; there are {', '.join(self._members)}")
        return self._members[name]

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for member in self._members.values():
                group.create_task(self._supervise(member))
            group.create_task(self._bound_logs())
            group.create_task(watch_answers([one.part for one in self._members.values()], self._notify))

    async def _supervise(self, member: _SupervisedPart) -> None:
        part = member.part
        while True:
            await member.should_run.wait()
            status = await part.wait()
            if part.running or not member.should_run.is_set():
                continue
            pause = member.pause_s()
            self._notify(
                f"{part.name}{ENDED}{_describe(status)}); starting it again in {pause:.1f} s; log: {part.log.path}"
            )
            await asyncio.sleep(pause)
            async with member.lock:
                if part.running or not member.should_run.is_set():
                    continue
                try:
                    await part.start()
                # Any error: on a full disk even the log cannot be opened, and supervision must outlive that.
                except Exception as error:  # noqa: BLE001
                    self._notify(f"{part.name} did not start: {_reason(error)}")
                    continue
                member.note_restart()
                self._notify(f"{part.name} is back (process {part.pid})")
                try:
                    self._on_change()
                except Exception as error:  # noqa: BLE001 - as above; the next change writes it
                    self._notify(f"what runs could not be noted: {_reason(error)}")

    async def _bound_logs(self) -> None:
        failing: dict[str, str] = {}
        while True:
            await asyncio.sleep(LOG_CHECK_S)
            for name, member in self._members.items():
                try:
                    await member.part.log.bound()
                    failing.pop(name, None)
                except OSError as error:
                    if failing.get(name) != (why := _reason(error)):
                        self._notify(f"the log of {name} could not be bounded: {why}")
                    failing[name] = why


def _reason(error: Exception) -> str:
    if isinstance(error, HongbaoError):
        return error.detail
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "the disk is full; make room"
    return f"{type(error).__name__}: {error}"


def _describe(status: int) -> str:
    return f"killed by signal {-status}" if status < 0 else f"exit status {status}"
