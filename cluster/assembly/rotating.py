"""The seam to `rotation.daemon`: what runs on this machine takes its ordinary days out by itself.

Without it a stack finds last month's names occupied after three weeks. Rounds come every HONGBAO_ROTATE_EVERY_S. What
cannot be done is said when that begins, not at every round; `rotate plan` tells the rest.
"""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.supervision.supervisor import Say

if TYPE_CHECKING:
    from rotation.daemon import Round

SOON_S = 15.0
"""Between rounds while today's tables wait for a name that an old day still has."""
FIRST_S = 120.0
"""After the start: the tables of coming days are made first."""


class Rotating:
    """Rounds of the daemon over the stack that runs on a data folder, from `start` to `stop`."""

    def __init__(self, data: Path, say: Say) -> None:
        self._data = data
        self._say = say
        self._task: asyncio.Task[None] | None = None
        self._wrong: frozenset[str] = frozenset()

    def start(self, *, at_once: bool) -> None:
        """Begin; `at_once` when today's tables wait for it."""
        self._task = asyncio.create_task(self._keep(at_once=at_once))

    async def stop(self) -> None:
        """Stop; a step in flight is rolled back by Postgres, and the next start goes on."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _keep(self, *, at_once: bool) -> None:
        # Imported here, as below: commands that start nothing need not pay for it.
        from rotation.daemon import DaemonSettings  # noqa: PLC0415
        from runtime.settings import load  # noqa: PLC0415

        urgent, every_s = at_once, load(DaemonSettings).rotate_every_s
        await asyncio.sleep(0 if urgent else FIRST_S)
        while True:
            try:
                done = await self._round()
            # Anything: a stack whose record cannot be read just now must not end the rounds.
            except Exception as error:  # noqa: BLE001
                self.tell_failures([f"rotation: {getattr(error, 'detail', None) or error}"])
            else:
                self.tell(done)
                urgent = urgent and bool(done.failed)
            await asyncio.sleep(min(SOON_S, every_s) if urgent else every_s)

    async def _round(self) -> "Round":
        from cluster.access import find  # noqa: PLC0415
        from cluster.rotations import rotations  # noqa: PLC0415
        from rotation.daemon import Daemon, DaemonSettings  # noqa: PLC0415
        from runtime.settings import load  # noqa: PLC0415

        access = find(self._data)
        daemon = Daemon(
            rotations=lambda: rotations(access), zone=lambda: access.topology().zone, settings=load(DaemonSettings)
        )
        return await daemon.run_once()

    def tell(self, done: "Round") -> None:
        """Say what a round did, and what failed in it that did not fail in the one before."""
        for name, day in done.rotated:
            self._say(f"{day} of {name} is archived and out of the hot tables")
        for name, day in done.dropped:
            self._say(f"{day} of {name} was past its retention and is dropped: it lives in the archive alone")
        self.tell_failures(f"rotation of {name}: {error.detail}" for name, _, error in done.failed)

    def tell_failures(self, now: Iterable[str]) -> None:
        """Say each failure when it begins, not at every round; one that was over and comes back is told again."""
        wrong = frozenset(now)
        for text in sorted(wrong - self._wrong):
            self._say(text)
        self._wrong = wrong
