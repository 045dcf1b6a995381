"""What operators may ask one server over HTTP, with the link key: which envelopes are hot."""

import asyncio
import hmac
from typing import Any

from aiohttp import web

from runtime.clock import Clock
from setnode.actors.registry import Registry
from setnode.limits import HOT_SCAN, HOT_SHOWN, HOT_WITHIN_S


def add_admin(app: web.Application, registry: Registry, clock: Clock, *, key: str) -> None:
    """Serve `GET /admin/hot?top=N` to callers that present the link key."""

    async def hot(request: web.Request) -> web.Response:
        if not hmac.compare_digest(request.headers.get("Authorization", "").encode(), f"Link {key}".encode()):
            raise web.HTTPUnauthorized(text="this address is for the system's own processes")
        text = request.query.get("top", "10")
        if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= HOT_SHOWN):
            raise web.HTTPBadRequest(text=f"top is 1 to {HOT_SHOWN}")
        return web.json_response(await hottest(registry, clock.now_ms() - HOT_WITHIN_S * 1000, int(text)))

    app.router.add_get("/admin/hot", hot)


async def hottest(registry: Registry, since_ms: int, top: int) -> list[dict[str, Any]]:
    """Return the `top` envelopes in memory by opens since an instant plus requests that wait now, most first."""
    found: list[tuple[int, dict[str, Any]]] = []
    for place, actor in enumerate(registry.actors(), 1):
        log = actor.log
        opened = 0 if log is None else log.opened_since(since_ms)
        if log is not None and (opened or actor.waiting):
            row = {
                "envelope_id": actor.envelope_id,
                "opened": opened,
                "waiting": actor.waiting,
                "shares_left": 0 if log.final else log.terms.count - len(log.winners),
            }
            found.append((opened + actor.waiting, row))
        if not place % HOT_SCAN:
            await asyncio.sleep(0)
    return [row for _, row in sorted(found, key=lambda one: -one[0])[:top]]
