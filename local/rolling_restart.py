"""Restarts our own processes one after the other, so that the others serve meanwhile; a command asks for it.

The command writes what it wants into a file of the data folder and sends SIGUSR1 to the process that supervises;
`running.json` then says how far it is. The wallet comes first, and its callers wait for it (`gateway.sets.calls`), then
setnodes, then gateways, each of which is replaced by one that serves already. Postgres and memcached are restarted only
if they are named.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from errors import HongbaoError, Refused
from installation.data_folder import DataFolder
from local import running
from local.running import Progress
from local.supervisor_log import Notify
from runtime.files import write_private
from runtime.unreadable import UNREADABLE

STEADY_S = 1.5
"""Pause before the next part: a gateway gives a server that was away its envelopes back after a second
(`gateway.limits.STEADY_S`)."""


class Request(msgspec.Struct, frozen=True):
    """Which parts; none: all of our own processes. `number` is one more than that of the request before."""

    number: int
    parts: list[str]


def ask(folder: DataFolder, parts: Sequence[str]) -> int:
    """Ask the stack that runs on `folder` for a restart; return the number of the request.

    Raises Refused: `not_up`, `no_such_part`, `restart_under_way`.
    """
    now = running.load(folder.running)
    known = [one.name for one in now.parts]
    for name in parts:
        if name not in known:
            raise Refused("no_such_part", f"there is no {name!r}; there are {', '.join(known)}")
    if now.restart.left and not now.restart.error:
        raise Refused("restart_under_way", f"a restart is under way; still to come: {', '.join(now.restart.left)}")
    request = Request(now.restart.number + 1, list(parts))
    write_private(_file(folder), msgspec.to_builtins(request))
    os.kill(now.pid, signal.SIGUSR1)
    return request.number


class RollingRestart:
    """The supervising side: `begin` when asked; `progress` is what `running.json` shows."""

    def __init__(
        self,
        folder: DataFolder,
        own: Sequence[str],
        restart_one: Callable[[str], Awaitable[None]],
        on_change: Callable[[], None],
        notify: Notify,
    ) -> None:
        """`own`: our own processes, in the order in which they are restarted."""
        self._folder = folder
        self._own = own
        self._restart_one = restart_one
        self._on_change = on_change
        self._notify = notify
        self._task: asyncio.Task[None] | None = None
        self.progress = Progress()

    def begin(self) -> None:
        """Do what the file asks for, unless a restart is under way."""
        if self._task is not None and not self._task.done():
            return
        try:
            request = msgspec.json.decode(_file(self._folder).read_bytes(), type=Request)
        except (OSError, *UNREADABLE) as error:
            self._notify(f"what is to be restarted cannot be read: {error}")
            return
        self._task = asyncio.create_task(self.restart(request.parts, request.number), name="rolling restart")

    async def close(self) -> None:
        """Stop before the next part."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def restart(self, parts: Sequence[str] = (), number: int = 0) -> None:
        """Restart the parts, or all of our own, in turn; `progress` says what became of it."""
        parts = parts or self._own
        self._show(Progress(number, tuple(parts)))
        for at, name in enumerate(parts):
            if at:
                await asyncio.sleep(STEADY_S)
            self._notify(f"restarting {name}")
            try:
                await self._restart_one(name)
            except HongbaoError as error:
                self._notify(f"{name} did not start: {error.detail}")
                self._show(Progress(number, tuple(parts[at:]), f"{name} did not start: {error.detail}"))
                return
            self._notify(f"{name} is back")
            self._show(Progress(number, tuple(parts[at + 1 :])))

    def _show(self, progress: Progress) -> None:
        self.progress = progress
        try:
            self._on_change()
        except Exception as error:  # noqa: BLE001 - as on a full disk: the restart goes on, and is noted with the next part
            self._notify(f"how far the restart is could not be noted: {error}")


def _file(folder: DataFolder) -> Path:
    return folder.path / "restart.json"
