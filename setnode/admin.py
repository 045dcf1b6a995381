"""What operators ask of one server over HTTP, with the link's key: which envelopes are hot."""

import asyncio
import hmac
from typing import Any

from aiohttp import web

from runtime.clock import Clock
from setnode.actors.registry import Registry

WITHIN_MS = 60_000
"""An envelope is hot by what was opened in the last minute."""
MOST = 100
PAUSE_EVERY = 2_000
"""Envelopes looked at in one turn of the loop, a millisecond of work."""


def add_admin(app: web.Application, registry: Registry, clock: Clock, *, key: str) -> None:
    """Serve `GET /admin/hot?top=N` to whoever presents the link key."""

    async def hot(request: web.Request) -> web.Response:
        if not hmac.compare_digest(request.headers.get("Authorization", "").encode(), f"Link {key}".encode()):
            raise web.HTTPUnauthorized(text="this address is for the system's own processes")
        text = request.query.get("top", "10")
        if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= MOST):
            raise web.HTTPBadRequest(text=f"top is 1 to {MOST}")
        return web.json_response(await hottest(registry, clock.now_ms() - WITHIN_MS, int(text)))

    app.router.add_get("/admin/hot", hot)


async def hottest(registry: Registry, since_ms: int, top: int) -> list[dict[str, Any]]:
    """Return the envelopes in memory that were opened most since an instant, or where most wait now."""
    found: list[tuple[int, dict[str, Any]]] = []
    for place, actor in enumerate(registry.actors(), 1):
        log = actor.log
        opened = 0 if log is None else log.opened_since(since_ms)
        if log is not None and (opened or actor.waiting):
            told = {
                "envelope_id": actor.envelope_id,
                "opened": opened,
                "waiting": actor.waiting,
                "shares_left": 0 if log.final else log.terms.count - len(log.winners),
            }
            found.append((opened + actor.waiting, told))
        if not place % PAUSE_EVERY:
            await asyncio.sleep(0)
    return [told for _, told in sorted(found, key=lambda one: -one[0])[:top]]
