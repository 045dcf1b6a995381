"""The proof that old days of a database may be moved by time: none of their rows and none of their fen can change."""

from collections.abc import Sequence
from datetime import date

from days import finality
from errors import Refused
from moving.context import MoveContext
from moving.limits import NAMED
from moving.route import Route
from runtime.postgres import Connection, connected


async def prove_final(context: MoveContext, connection: Connection, route: Route, days: Sequence[date]) -> None:
    """Raise Refused `days_not_final`, naming what stands in the way, unless each of these days is over.

    `days.finality` says what that means. The audit of the day, which rotation adds, is left out: these days stay hot,
    and both copies are compared.
    """
    if not days:
        return
    found: list[str] = []
    async with connected(context.wallet, application_name="hongbao:move") as wallet:
        for day in days:
            obstacles = await finality.obstacles(connection, wallet, day, route.slots)
            found += [f"{day}: {one.detail}" for one in obstacles]
    if found:
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        text = "; ".join(found[:NAMED])
        raise Refused("days_not_final", f"days of {route.name} before the move are not over: {text}{more}")
