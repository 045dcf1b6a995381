"""Where one envelope is: its SET, tables, state of its day, accounts. For a person with an ID and a question."""

import msgspec

from archive.states import State
from installation.access import Access
from runtime.postgres import connected
from schema import names
from schema.day_tables import known_days
from schema.names import TableKind
from sharding.ids import database_for, day_of, format_id, slot_of
from wire.orders import escrow_account

NO_TABLES = "no tables"
"""Neither hot nor in the register: the day is to come, or long before the first start."""
_STATE = "SELECT state FROM day_register WHERE day = $1 AND xx = $2"
_IN_COLD_SCHEMA = (State.DETACHED, State.EXPORTED, State.VERIFIED)


class Where(msgspec.Struct, frozen=True):
    """`state`: of the day in this database (`archive.states`), or NO_TABLES. `tables`: none once they are dropped.

    `found`: whether the header is in them; None if there are no tables to look into.
    """

    envelope_id: str
    set: str
    database: str
    day: str
    state: str
    tables: list[str]
    found: bool | None
    escrow: str
    orders: str


async def where(access: Access, envelope_id: int) -> Where:
    """Find an envelope by its ID; raises Unavailable `database_unavailable`: its SET is away."""
    topology = access.topology()
    day, slot, xx = day_of(envelope_id), slot_of(envelope_id), database_for(envelope_id)
    home = topology.set_for(envelope_id).name
    async with connected(access.set_dsn(home)) as connection:
        known = await connection.fetchval(_STATE, day, xx)
        hot = day in await known_days(connection)
        state = known or (State.HOT.value if hot else NO_TABLES)
        cold = state in _IN_COLD_SCHEMA
        table = names.day_table(TableKind.ENVELOPE, day) if cold else "envelope" if hot else ""
        found = None
        if table:
            query = f"SELECT EXISTS (SELECT FROM {table} WHERE envelope_id = $1 AND slot = $2)"  # noqa: S608 - digits
            found = await connection.fetchval(query, envelope_id, slot)
    leaves = [names.leaf(kind, slot, day) for kind in TableKind]
    if cold:
        leaves = [f"{names.cold(xx, day)}.{leaf.partition('.')[2]}" for leaf in leaves]
    return Where(
        envelope_id=format_id(envelope_id), set=home, database=names.database(xx), day=str(day), state=state,
        tables=leaves if table else [], found=found, escrow=escrow_account(envelope_id), orders=f"{envelope_id}.SEQ",
    )  # fmt: skip
