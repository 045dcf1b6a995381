"""What operators may ask one server over HTTP, as an operator: which envelopes are hot."""

import asyncio
from typing import Any

from aiohttp import web

from runtime.clock import Clock
from setnode.actors.registry import Registry
from setnode.limits import HOT_SCAN, HOT_SHOWN, HOT_WITHIN_S
from wire.handshake import PROOF_HEADER, Doorkeeper
from wire.keys import OPERATOR
from wire.server import admit


def add_admin(app: web.Application, registry: Registry, clock: Clock, doorkeeper: Doorkeeper) -> None:
    """Serve `GET /admin/hot?top=N` to operators (`wire.ask`)."""

    async def hot(request: web.Request) -> web.Response:
        admitted = admit(doorkeeper, request)
        proof = {PROOF_HEADER: admitted.proof}
        if admitted.role != OPERATOR:
            raise web.HTTPForbidden(text="not_permitted: this address is for operators", headers=proof)
        text = request.query.get("top", "10")
        if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= HOT_SHOWN):
            raise web.HTTPBadRequest(text=f"top is 1 to {HOT_SHOWN}", headers=proof)
        return web.json_response(
            await hottest(registry, clock.now_ms() - HOT_WITHIN_S * 1000, int(text)), headers=proof
        )

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
