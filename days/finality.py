"""What keeps a business day from being over, by name: an envelope, a payout, an escrow account, each with its fen.

A day of some databases is over when every envelope's claim log has ended and adds up to its total, no row of the day is
in `due` (envelopes that expiry has still to look at), `payout_batch` or `payout_stuck`, and each of its escrow accounts
(day, slot) holds exactly zero. Then no process has a reason to write one of its rows or to move one of its fen.

Works for hot days only. Reads only; each query has a snapshot of its own unless the caller opened a transaction.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date
from typing import Any

from days.limits import SHOWN
from runtime import sql
from runtime.postgres import Connection
from sharding.ids import end_id, first_id, make_id
from sharding.slots import slots_of
from wire.orders import escrow_account, payout_order

_OPEN = sql.read("days", "open_envelopes")
_WAITING = sql.read("days", "waiting")
_ESCROWS = sql.read("days", "escrows")


@dataclass(frozen=True)
class Obstacle:
    """One thing in the way: the check that fails, what it is about, a sentence for an operator, the fen at stake."""

    check: str
    subject: str
    detail: str
    fen: int = 0


def slots_of_all(databases: Collection[int]) -> list[int]:
    """Return all slots of some databases."""
    return [slot for xx in databases for slot in slots_of(xx)]


async def obstacles(connection: Connection, wallet: Connection, day: date, slots: Collection[int]) -> list[Obstacle]:
    """Return what keeps the hot `day` of `slots` from being over, at most SHOWN of each kind; nothing if it is over.

    `connection` is to the SET, `wallet` to the wallet's database, each in a transaction or not. An open envelope is
    named once: its row in `due` is left out.
    """
    still_open = await open_envelopes(connection, day, slots)
    known = {one.subject for one in still_open}
    waiting = [
        one for one in await remaining_work(connection, day, slots) if one.check != "due" or one.subject not in known
    ]
    return [*still_open, *waiting, *await escrows(wallet, day, slots)]


async def open_envelopes(connection: Connection, day: date, slots: Collection[int]) -> list[Obstacle]:
    """Return the envelopes of a hot day whose log has not ended, or does not add up to their total."""
    rows = await connection.fetch(_OPEN, first_id(day), end_id(day), slots, SHOWN)
    return [
        Obstacle(
            "envelope_open", str(row["envelope_id"]),
            f"envelope {row['envelope_id']} is still open, with {row['left_fen']} fen, until "
            f"{row['expires_at']:%m-%d %H:%M}",
            row["left_fen"],
        )
        for row in rows
    ]  # fmt: skip


async def remaining_work(connection: Connection, day: date, slots: Collection[int]) -> list[Obstacle]:
    """Return the envelopes that expiry still has to look at, and the payouts that are unpaid or stuck.

    Only of `slots`: a payout that stayed behind when its database moved away no longer concerns this SET.
    """
    return [_remaining(row) for row in await connection.fetch(_WAITING, first_id(day), end_id(day), slots, SHOWN)]


async def escrows(wallet: Connection, day: date, slots: Collection[int]) -> list[Obstacle]:
    """Return the escrow accounts (day, slot) that are not exactly zero."""
    names = [escrow_account(make_id(day, 0, slot)) for slot in slots]
    return [
        Obstacle(
            "escrow_not_zero", row["name"],
            f"the escrow of slot {row['name'][-3:]} holds {row['balance_fen']} fen", row["balance_fen"],
        )
        for row in await wallet.fetch(_ESCROWS, names)
    ]  # fmt: skip


def _remaining(row: Any) -> Obstacle:
    envelope_id = str(row["envelope_id"])
    if row["what"] == "due":
        return Obstacle("due", envelope_id, f"envelope {envelope_id} is listed in due: expiry must still look at it")
    order_no = payout_order(row["envelope_id"], row["seq"])
    if row["what"] == "payout":
        return Obstacle("payout_waits", order_no, f"payout {order_no} is unpaid (batch {row['batch_id']})")
    return Obstacle("payout_stuck", order_no, f"payout {order_no} is stuck: {row['reason']} (hongbao payout)")
