"""The process: a worker for each SET, and its probes."""

import asyncio
from typing import Annotated

import msgspec
from aiohttp import web

from errors import Refused
from events.jetstream import JetStream
from events.outcome import Sender
from events.register import Kind, Target
from events.set_worker import SetWorker
from events.webhook.endpoint import Webhook
from runtime import logs
from runtime.http import HttpServer, Readiness, add_probes
from runtime.priority import give_way
from runtime.settings import host_and_port

_log = logs.get("events")


class EventsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Read from HONGBAO_* (`runtime.settings`)."""

    listen: str
    """HOST:PORT of its probes and metrics; port 0 takes a free one. Leave it where only your own machines reach it."""
    set_dsns: str
    """Of each SET its name, "=" and the DSN of its database for the role hongbao_events, separated by blanks."""
    events_nice: Annotated[int, msgspec.Meta(ge=0, le=19)] = 19
    """How far this process gives way to others on its machine (`nice`): where CPU is scarce, opens come first and
    events later. 0 where it has a machine of its own."""


def sender_of(target: Target) -> Sender:
    """Return what calls a sink's receiver; raises Refused `address_invalid`, `address_private`, `secret_invalid`."""
    return JetStream(target) if target.kind == Kind.NATS else Webhook(target)


def dsns_of(text: str) -> dict[str, str]:
    """Read `EventsSettings.set_dsns`; raises Refused `settings_invalid`."""
    found = {}
    for one in text.split():
        name, separated, dsn = one.partition("=")
        if not name or not separated or "://" not in dsn:
            # Not the value itself: it has a password in it.
            raise Refused("settings_invalid", "HONGBAO_SET_DSNS is NAME=DSN for each SET, separated by blanks")
        found[name] = dsn
    if not found:
        raise Refused("settings_invalid", "HONGBAO_SET_DSNS names no SET")
    return found


async def serve(settings: EventsSettings, stop: asyncio.Event) -> None:
    """Deliver until `stop` is set; raises Refused `settings_invalid`."""
    workers = [SetWorker(name, dsn, sender_of) for name, dsn in dsns_of(settings.set_dsns).items()]
    give_way(settings.events_nice)
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
