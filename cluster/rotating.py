"""The seam to `rotation.daemon`: what runs on this machine takes its ordinary days out by itself.

Without it a stack finds last month's names occupied after three weeks. What it cannot prove it says, once; `rotate
plan` tells the rest.
"""

import asyncio
from pathlib import Path

from cluster.supervisor import Say

EVERY_S = 600.0
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
        self._said: set[str] = set()

    def start(self, *, at_once: bool) -> None:
        """Begin; `at_once` when today's tables wait for it."""
        self._task = asyncio.create_task(self._keep(at_once=at_once))

    async def stop(self) -> None:
        """Stop; a step in flight is rolled back by Postgres, and the next start goes on."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _keep(self, *, at_once: bool) -> None:
        urgent = at_once
        await asyncio.sleep(0 if urgent else FIRST_S)
        while True:
            try:
                urgent = await self._round() and urgent
            # Anything: a driver's error when Postgres is killed in a round must not end the rounds.
            except Exception as error:  # noqa: BLE001
                self._tell(f"rotation: {getattr(error, 'detail', None) or error}")
            await asyncio.sleep(SOON_S if urgent else EVERY_S)

    async def _round(self) -> bool:
        """Do one round; returns whether anything failed."""
        # Imported here: commands that start nothing need not pay for it.
        from cluster.access import find  # noqa: PLC0415
        from cluster.rotations import rotations  # noqa: PLC0415
        from rotation.daemon import Daemon, DaemonSettings  # noqa: PLC0415
        from runtime.settings import load  # noqa: PLC0415

        access = find(self._data)
        daemon = Daemon(
            rotations=lambda: rotations(access), zone=lambda: access.topology().zone, settings=load(DaemonSettings)
        )
        done = await daemon.run_once()
        for name, day in done.rotated:
            self._say(f"{day} of {name} is archived and out of the hot tables")
        for name, _, error in done.failed:
            self._tell(f"rotation of {name}: {error.detail}")
        return bool(done.failed)

    def _tell(self, text: str) -> None:
        """Say a thing once, not at every round."""
        if text not in self._said:
            self._said.add(text)
            self._say(text)
