"""Receivers of events, and the process that delivers to them, in this loop."""

import asyncio
import contextlib
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any

import asyncpg
import pytest
import standardwebhooks
from aiohttp import web

from events.register import Target, add, list_sinks, new_secret
from events.service import sender_of
from events.set_worker import MakeSender, SetWorker
from schema import roles
from tests.integration.setnode.fixtures import Town

Answer = Callable[[list[dict[str, Any]]], Awaitable[web.StreamResponse] | web.StreamResponse | int]
WAIT_S = 60.0


class Receiver:
    """A receiver of webhooks as an app has one: verifies with the standard library of webhooks, and keeps what came.

    `answer` decides what a call is answered; its events count as accepted if that is 2xx.
    """

    def __init__(self, secret: str) -> None:
        self.secret = secret
        self.answer: Answer = lambda _: 204
        self.calls: list[tuple[dict[str, str], list[dict[str, Any]]]] = []
        self.accepted: list[dict[str, Any]] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        standardwebhooks.Webhook(self.secret).verify(body, dict(request.headers), json_parse=False)
        told = json.loads(body)
        events = told if isinstance(told, list) else [told]
        self.calls.append((dict(request.headers), events))
        answer = self.answer(events)
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, int):
            answer = web.Response(status=answer)
        if answer.status < 300:
            self.accepted += events
        return answer

    def first(self) -> list[dict[str, Any]]:
        """Return each accepted event once, in the order in which it first came."""
        return list({one["id"]: one for one in self.accepted}.values())

    def types(self) -> list[str]:
        """Return the types of these."""
        return [one["type"] for one in self.first()]

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not holds():
                await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def receiving(secret: str | None = None) -> AsyncIterator[Receiver]:
    receiver = Receiver(secret or new_secret())
    app = web.Application()
    app.router.add_post("/hook", receiver.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    try:
        yield receiver
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[str]:
    """A server that answers every call with these bytes as they are, and then keeps the connection; yields its URL."""
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.split(b":")[1]))
                writer.write(answer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    finally:
        server.close()
        for writer in writers:
            writer.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as one:
        yield one


def events_dsn(town: Town) -> str:
    assert town.databases is not None
    return town.databases.dsn_as(town.set_dsn, roles.EVENTS)


@contextlib.asynccontextmanager
async def operator(town: Town) -> AsyncIterator[Any]:
    """A connection as operators' commands have it."""
    connection = await asyncpg.connect(events_dsn(town))
    try:
        yield connection
    finally:
        await connection.close()


async def add_sink(town: Town, receiver: Receiver, name: str = "app", **more: Any) -> None:
    target = Target(name, "webhook", receiver.url, private_addresses=True, secrets=(receiver.secret,), **more)
    async with operator(town) as connection:
        assert await add(connection, target)


async def until_sink(town: Town, holds: Callable[[Any], bool], name: str = "app") -> Any:
    """Wait until a sink is as expected, and return it."""
    async with asyncio.timeout(WAIT_S):
        while not holds(sink := await sink_of(town, name)):
            await asyncio.sleep(0.02)
    return sink


async def sink_of(town: Town, name: str = "app") -> Any:
    async with operator(town) as connection:
        return next(one for one in await list_sinks(connection) if one.target.name == name)


@contextlib.asynccontextmanager
async def delivering(town: Town, make_sender: MakeSender = sender_of) -> AsyncIterator[SetWorker]:
    """Deliver as the process does; at the end it is stopped as by a kill: nothing is written any more."""
    worker = SetWorker("set-1", events_dsn(town), make_sender)
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        task.cancel()
        await asyncio.wait({task})


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses of a hundredth."""
    for module, names in (
        ("events.delivery", {"POLL_S": 0.005, "SAVE_S": 0.02, "QUIET_SAVE_S": 0.1, "RETRY_LOOK_S": 0.02}),
        ("events.delivery", {"ASKED_S": 0.05}),
        ("events.lanes", {"RETRY_LOOK_S": 0.02}),
        ("events.set_worker", {"LOOK_S": 0.02, "TRIM_S": 0.02}),
        ("events.health", {"FIRST_PAUSE_S": 0.01, "MAX_PAUSE_S": 0.1}),
        ("events.retries", {"RETRY_PAUSES_S": (0.05, 0.05, 0.05)}),
    ):
        for name, value in names.items():
            monkeypatch.setattr(f"{module}.{name}", value)


def by_envelope(events: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found = defaultdict(list)
    for one in events:
        found[one["subject"]].append(one)
    return found


def out_of_order(events: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield (envelope, sequence) of each first delivery that came after a later one of its envelope."""
    for envelope_id, of_one in by_envelope(list({one["id"]: one for one in events}.values())).items():
        last = ""
        for one in of_one:
            if "sequence" in one:
                if one["sequence"] <= last:
                    yield envelope_id, one["sequence"]
                last = one["sequence"]
