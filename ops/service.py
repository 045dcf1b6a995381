"""The process: its settings, its parts wired together, its start and stop."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import msgspec

from installation import data_folder
from installation.finding import find
from installation.keys import SHORTEST
from ops.actions import Actions
from ops.audits import Audits
from ops.federation import Federation
from ops.journal import NAME, Journal
from ops.reads import Lists
from ops.routes import Routes
from ops.sessions import Role, Sessions
from ops.watching import Watching
from runtime import logs
from runtime.clock import SystemClock
from runtime.http import HttpServer
from runtime.process import Stop
from runtime.settings import host_and_port

_log = logs.get("ops")

Key = Annotated[str, msgspec.Meta(min_length=SHORTEST)]


class OpsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Read from HONGBAO_* (`runtime.settings`)."""

    listen: str
    """HOST:PORT of the operator's view; port 0 takes a free one. It speaks plain HTTP and keys are sent over it: leave
    it on 127.0.0.1, or put a proxy with TLS before it."""
    data: str = ""
    """The data folder of the installation; where `./run` looks for it unless set."""
    ops_key: Key
    """What an operator logs in with."""
    ops_view_key: Key
    """What shows everything and changes nothing."""
    metrics_key: Key
    """What opens /ops/metrics."""


@contextlib.asynccontextmanager
async def serving(settings: OpsSettings) -> AsyncIterator["Running"]:
    """Serve for the block; raises Refused `not_installed` if the data folder holds no installation."""
    folder = data_folder.locate(Path(settings.data) if settings.data else None)
    access = find(folder.path)
    host, port = host_and_port(settings.listen)
    sessions = Sessions({Role.OPERATOR: settings.ops_key, Role.VIEWER: settings.ops_view_key}, SystemClock())
    watching, audits = Watching(access, folder), Audits(access)
    journal = Journal(folder.path / NAME)
    federation = Federation(access, folder, settings.metrics_key)
    routes = Routes(access, sessions, watching, Lists(access), Actions(access, journal), journal, audits, federation)
    async with HttpServer(routes.app(), host, port) as server:
        looking = asyncio.create_task(watching.run(), name="watching")
        looking.add_done_callback(_tell_end)
        try:
            yield Running(f"http://{host}:{server.port}/ops/", watching)
        finally:
            looking.cancel()
            await asyncio.wait({looking})
            await audits.close()


class Running:
    """`url`: of the page."""

    def __init__(self, url: str, watching: Watching) -> None:
        self.url = url
        self.watching = watching


async def serve(settings: OpsSettings, stop: Stop) -> None:
    """Serve until `stop` is set."""
    async with serving(settings) as running:
        _log.info("the operator's view is served", url=running.url)
        await stop.wait()


def _tell_end(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("watching has ended", error=repr(error))
