"""The process: a worker for each SET, and its probes."""

import asyncio
from pathlib import Path
from typing import Annotated

import msgspec
from aiohttp import web

from events.jetstream import JetStream
from events.outcome import Sender
from events.register import Kind, Target
from events.set_worker import SetWorker
from events.webhook.endpoint import Webhook
from installation import data_folder
from installation.access import find
from runtime import logs
from runtime.http import HttpServer, Readiness, add_probes
from runtime.priority import give_way
from runtime.settings import host_and_port
from schema import roles

_log = logs.get("events")


class EventsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Read from HONGBAO_* (`runtime.settings`)."""

    listen: str
    """HOST:PORT of its probes and metrics; port 0 takes a free one. Leave it where only your own machines reach it."""
    data: str = ""
    """The data folder of the installation; where `./run` looks for it unless set."""
    events_nice: Annotated[int, msgspec.Meta(ge=0, le=19)] = 19
    """How far this process gives way to others on its machine (`nice`): where CPU is scarce, opens come first and
    events later. 0 where it has a machine of its own."""


def sender_of(target: Target) -> Sender:
    """Return what calls a sink's receiver; raises Refused `address_invalid`, `address_private`, `secret_invalid`."""
    return JetStream(target) if target.kind == Kind.NATS else Webhook(target)


async def serve(settings: EventsSettings, stop: asyncio.Event) -> None:
    """Deliver until `stop` is set; raises Refused `not_installed` if the data folder holds no installation."""
    give_way(settings.events_nice)
    access = find(data_folder.locate(Path(settings.data) if settings.data else None).path)
    workers = [SetWorker(one.name, access.set_dsn(one.name, roles.EVENTS), sender_of) for one in access.topology().sets]
    readiness = Readiness()
    for worker in workers:
        readiness.note(f"{worker.name} does not answer: its events wait", lambda one=worker: not one.answers)  # type: ignore[misc]
    app = web.Application()
    add_probes(app, readiness)
    host, port = host_and_port(settings.listen)
    async with HttpServer(app, host, port) as server:
        _log.info("events are delivered", port=server.port, sets=[worker.name for worker in workers])
        tasks = [asyncio.create_task(worker.run(), name=f"events of {worker.name}") for worker in workers]
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({*tasks, stopping}, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()  # a worker ends only by a fault of ours: the process ends with it
        finally:
            stopping.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.wait({*tasks, stopping})
