"""Rotation beside a stack of one machine: ordinary days leave the hot tables without an operator's command.

Without it a stack that runs for three weeks needs table names that last month's days still have. There is a round every
HONGBAO_ROTATE_EVERY_S seconds, and when the clock of a sandbox was moved. A failure is printed when it begins, not at
every round; `./run rotate plan` says what stands in the way now.
"""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from installation.finding import find
from rotation.daemon import Daemon, DaemonSettings, Round
from rotation.limits import MOVED_S, START_S, URGENT_S
from rotation.wiring import rotations
from runtime.clock import Clock, SystemClock
from runtime.sandbox_clock import Pauses
from runtime.settings import load


class BackgroundRotation:
    """Rounds of the daemon over the stack that runs on a data folder, from `start` to `stop`; `say` prints a line.

    `clock` is the stack's: when it is moved, a round follows.
    """

    def __init__(self, data: Path, say: Callable[[str], None], clock: Clock | None = None) -> None:
        self._data = data
        self._say = say
        self._pauses = Pauses(clock or SystemClock())
        self._task: asyncio.Task[None] | None = None
        self._failing: frozenset[str] = frozenset()

    def start(self, *, at_once: bool) -> None:
        """Begin; call it once. `at_once`: today's tables cannot be made before an old day has given up their names."""
        self._task = asyncio.create_task(self._run(at_once=at_once))

    async def stop(self) -> None:
        """Stop and wait for the end; Postgres rolls back a step in flight, and the next start goes on from there."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self, *, at_once: bool) -> None:
        urgent, every_s = at_once, load(DaemonSettings).rotate_every_s
        if await self._pauses.sleep(0 if urgent else START_S):
            urgent = True
            await asyncio.sleep(MOVED_S)
        while True:
            try:
                done = await self._round()
            # Any error: a stack whose installation file cannot be read just now must not end the rounds.
            except Exception as error:  # noqa: BLE001
                self.report_failures([f"rotation: {getattr(error, 'detail', None) or error}"])
            else:
                self.report(done)
                urgent = urgent and bool(done.failed)
            if await self._pauses.sleep(min(URGENT_S, every_s) if urgent else every_s):
                urgent = True
                await asyncio.sleep(MOVED_S)

    async def _round(self) -> Round:
        access = find(self._data)
        daemon = Daemon(
            rotations=lambda: rotations(access), zone=lambda: access.topology().zone, settings=load(DaemonSettings)
        )
        return await daemon.run_once()

    def report(self, done: Round) -> None:
        """Print what a round did, and those of its failures that the round before did not have."""
        for name, day in done.rotated:
            self._say(f"{day} of {name} is archived and out of the hot tables")
        for name, day in done.dropped:
            self._say(f"{day} of {name} was past its retention and is dropped: it lives in the archive alone")
        self.report_failures(f"rotation of {name}: {error.detail}" for name, _, error in done.failed)

    def report_failures(self, now: Iterable[str]) -> None:
        """Print each failure when it begins; one that was over and comes back is printed again."""
        failing = frozenset(now)
        for text in sorted(failing - self._failing):
            self._say(text)
        self._failing = failing
