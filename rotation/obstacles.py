"""The obstacles of a day that a few queries find, without the audit: it is not over, or rows of it are misplaced."""

from collections.abc import Collection
from datetime import date

from days import finality
from days.finality import Obstacle, slots_of_all
from runtime import sql
from runtime.postgres import Connection
from schema import names
from schema.names import TableKind
from sharding.ids import end_id, first_id

_FOREIGN = sql.read("rotation", "foreign_rows")
_MOVING = sql.read("rotation", "moving")


async def known_obstacles(
    connection: Connection, wallet: Connection, day: date, slots: Collection[int], foreign: Collection[int]
) -> list[Obstacle]:
    """Return what keeps a hot day from being closed, as far as a few queries find it; the proof finds more."""
    return [*await misplaced(connection, day, foreign), *await finality.obstacles(connection, wallet, day, slots)]


async def misplaced(connection: Connection, day: date, foreign: Collection[int]) -> list[Obstacle]:
    """Return the databases that a move is at work on, and those of other SETs (`foreign`) that have rows here."""
    tables = [names.day_table(kind, day) for kind in TableKind]
    moving = [row["stands_in"] for row in await connection.fetch(_MOVING, tables)]
    slots = slots_of_all(foreign)
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
