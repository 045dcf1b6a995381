"""What stands in a day's way, by name: an envelope, a payout, an escrow account, each with its fen."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date
from typing import Any

from rotation import queries
from rotation.limits import SHOWN
from schema import names
from schema.names import Kind
from sharding.ids import end_id, first_id, make_id
from sharding.slots import slots_of
from wire.orders import escrow_account, payout_order

_OPEN = queries.read("open_envelopes")
_WAITING = queries.read("waiting")
_ESCROWS = queries.read("escrows")
_FOREIGN = queries.read("foreign_rows")
_MOVING = queries.read("moving")


@dataclass(frozen=True)
class Obstacle:
    """One thing in the way: the check that fails, what it is about, a sentence, and the fen in question."""

    check: str
    subject: str
    detail: str
    fen: int = 0


def slots_of_all(databases: Collection[int]) -> list[int]:
    """Return all slots of some databases."""
    return [slot for xx in databases for slot in slots_of(xx)]


async def quick_look(
    connection: Any, wallet: Any, day: date, slots: Collection[int], strangers: Collection[int]
) -> list[Obstacle]:
    """Look at a hot day without matching it with the wallet: quicker than the proof. At most SHOWN of each kind."""
    still_open = await open_envelopes(connection, day)
    known = {one.subject for one in still_open}
    waiting = [
        one for one in await waiting_rows(connection, day, slots) if one.check != "due" or one.subject not in known
    ]
    return [*await misplaced(connection, day, strangers), *still_open, *waiting, *await escrows(wallet, day, slots)]


async def misplaced(connection: Any, day: date, strangers: Collection[int]) -> list[Obstacle]:
    """Return the databases that a move is at work on, and those of other SETs that have rows here."""
    tables = [names.day_table(kind, day) for kind in Kind]
    moving = [row["stands_in"] for row in await connection.fetch(_MOVING, tables)]
    slots = slots_of_all(strangers)
    rows = await connection.fetch(_FOREIGN, first_id(day), end_id(day), slots) if slots else []
    return [
        *(Obstacle("database_moves", name, f"{name} is on its way to another SET; let that finish") for name in moving),
        *(
            Obstacle(
                "foreign_rows", names.database(row["xx"]),
                f"{names.database(row['xx'])} is another SET's on {day} and has {row['rows']} rows here",
            )
            for row in rows
        ),
    ]  # fmt: skip


async def open_envelopes(connection: Any, day: date) -> list[Obstacle]:
    """Return the envelopes of a hot day that are open."""
    rows = await connection.fetch(_OPEN, first_id(day), end_id(day), SHOWN)
    return [
        Obstacle(
            "envelope_open", str(row["envelope_id"]),
            f"envelope {row['envelope_id']} is open with {row['left_fen']} fen until {row['expires_at']:%m-%d %H:%M}",
            row["left_fen"],
        )
        for row in rows
    ]  # fmt: skip


async def waiting_rows(connection: Any, day: date, slots: Collection[int]) -> list[Obstacle]:
    """Return what waits: envelopes that nobody has looked at since they ended, payouts on their way or stuck.

    Only of `slots`: a payout left behind by a database that is another SET's by now keeps no other day here.
    """
    return [_waiting(row) for row in await connection.fetch(_WAITING, first_id(day), end_id(day), slots, SHOWN)]


async def escrows(wallet: Any, day: date, slots: Collection[int]) -> list[Obstacle]:
    """Return the escrow accounts (day, slot) that are not exactly zero."""
    names = [escrow_account(make_id(day, 0, slot)) for slot in slots]
    return [
        Obstacle(
            "escrow_not_zero", row["name"],
            f"the escrow of slot {row['name'][-3:]} holds {row['balance_fen']} fen", row["balance_fen"],
        )
        for row in await wallet.fetch(_ESCROWS, names)
    ]  # fmt: skip


def _waiting(row: Any) -> Obstacle:
    envelope_id = str(row["envelope_id"])
    if row["what"] == "due":
        return Obstacle("due", envelope_id, f"envelope {envelope_id} is still to be looked at by expiry")
    order_no = payout_order(row["envelope_id"], row["seq"])
    if row["what"] == "payout":
        return Obstacle("payout_waits", order_no, f"payout {order_no} is unpaid (batch {row['batch_id']})")
    return Obstacle("payout_stuck", order_no, f"payout {order_no} is stuck: {row['reason']} (hongbao payout)")
