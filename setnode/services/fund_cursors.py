"""Sets the sweepers back to where the wallet is: after a restore the wallet is behind what they have seen.

Each SET's sweeper remembers the number of the last fund that it has compared. Funds are never deleted, so that number
is at most the newest fund's; a wallet that was restored to an earlier instant gives the lost numbers out again, and
without this the sweepers would pass over them: a create that died half way would never be refunded.
"""

from collections.abc import Mapping

from runtime import postgres

_NEWEST = "SELECT coalesce(max(fund_id), 0) FROM fund"
_AFTER = "SELECT after FROM fund_cursor"
_SET_BACK = "UPDATE fund_cursor SET after = $1 WHERE after > $1"


async def set_back(wallet: str, sets: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    """Set each SET's cursor back to the wallet's newest fund; returns (from, to) of those that were ahead.

    `wallet` and `sets` are owners' DSNs. Call it before the wallet takes creates again: those get the lost numbers.
    Beside sweepers it is safe, they move a cursor only from where they found it. Durable on return; idempotent. Funds
    up to the wallet's newest one were compared before.
    """
    moved: dict[str, tuple[int, int]] = {}
    async with postgres.connected(wallet) as connection:
        newest = int(await connection.fetchval(_NEWEST))
    for name, dsn in sets.items():
        async with postgres.connected(dsn) as connection, connection.transaction():
            after = int(await connection.fetchval(_AFTER))
            if after > newest:
                await connection.execute(_SET_BACK, newest)
                moved[name] = (after, newest)
    return moved
