"""What keeps old days of a database from being moved: whatever could still change a row of them, or a fen."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from envelope.errors import Refused
from moving import queries
from moving.ground import Ground, Route
from runtime import postgres
from sharding.ids import end_id, first_id, format_id
from wire.orders import escrow_account

_UNFINISHED = queries.read("unfinished")
_ESCROWS = "SELECT name, balance_fen FROM account WHERE name = ANY($1::text[]) AND balance_fen <> 0 ORDER BY name"
_SAYS = {
    "open": "envelope {} is still open",
    "unpaid": "a payout of envelope {} has not been made yet",
    "stuck": "a payout of envelope {} is stuck (hongbao payout stuck)",
    "due": "envelope {} is still listed to be closed; that is taken off within seconds of its expiry",
}
_EACH = 3
_MOST = 8


async def prove_final(ground: Ground, connection: Any, route: Route, days: Sequence[date]) -> None:
    """Raise Refused `days_not_final`, saying what stands in the way, unless nothing of these days can change any more.

    Every envelope closed or sold out, every claim and refund paid, each escrow account (slot, day) exactly zero: so no
    money of these days waits for an envelope either.
    """
    if not days:
        return
    hindrances: list[str] = []
    for day in days:
        rows = await connection.fetch(_UNFINISHED, first_id(day), end_id(day), route.slots, _EACH)
        hindrances += [_SAYS[row["what"]].format(format_id(row["envelope_id"])) for row in rows]
    accounts = [escrow_account(first_id(day) + slot) for day in days for slot in route.slots]
    wallet = await postgres.connect(ground.wallet, application_name="hongbao:move")
    try:
        rows = await wallet.fetch(_ESCROWS, accounts)
    finally:
        await postgres.close(wallet)
    hindrances += [f"{row['name']} holds {row['balance_fen']} fen" for row in rows]
    if hindrances:
        more = f" and {len(hindrances) - _MOST} more" if len(hindrances) > _MOST else ""
        text = "; ".join(hindrances[:_MOST])
        raise Refused("days_not_final", f"days of {route.name} before the move are not over: {text}{more}")
