"""A gateway that answers as a test says, and a client over it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from client import Hongbao, Patience

QUICK = Patience(first_s=0.001, longest_s=0.002, attempt_s=0.5)
WALLET = {"user": "alice", "balance_fen": 7}
ENVELOPE = {
    "envelope_id": "1", "status": "open", "sender": "alice", "kind": "lucky", "split": "double_mean",
    "split_version": 1, "split_commitment": "0", "total_fen": 1, "count": 1, "greeting": "", "password_required": False,
    "created_at": "2026-11-26T00:00:00Z", "opens_at": "2026-11-26T00:00:00Z", "expires_at": "2026-11-27T00:00:00Z",
    "a_member_of_next_year": [1],
}  # fmt: skip

Answer = Callable[[web.Request], Any]


class Line:
    """A gateway that answers its requests with one answer after the other; the last one goes on."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[web.Request] = []
        self.bodies: list[bytes] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        self.bodies.append(await request.read())
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        found = answer(request)
        return await found if asyncio.iscoroutine(found) else found


def refuse(status: int, code: str, retry: str, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: web.json_response({"code": code, "retry": retry}, status=status, headers=named)


def fine(_: web.Request) -> web.Response:
    return web.json_response(WALLET)


def made(_: web.Request) -> web.Response:
    return web.json_response(ENVELOPE, status=201)


def hang_up(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def break_off(request: web.Request) -> web.StreamResponse:
    """Begin an answer, and hang up in the middle of it."""
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"user":')
    assert request.transport is not None
    request.transport.close()
    return response


async def silent(_: web.Request) -> web.Response:
    await asyncio.sleep(5)
    return web.Response()


@contextlib.asynccontextmanager
async def over(line: Line, patience: Patience = QUICK, **more: Any) -> AsyncIterator[Hongbao]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", line.answer)
    async with TestServer(app) as server, Hongbao(str(server.make_url("/")), patience=patience, **more) as hongbao:
        yield hongbao


def page(_: web.Request) -> web.Response:
    """What a proxy says in place of the gateway."""
    return web.Response(text="<html>Sign in to the network</html>", content_type="text/html")


def telling(streams: Iterator[bytes]) -> Answer:
    """Answer each request with the next stream, which ends after what it tells."""

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(next(streams))
        return response

    return stream
