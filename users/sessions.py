"""The connections of one command that changes names: the wallet's and every SET's, as the owner, with the day lock."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from days.lock import lock_days
from errors import Refused
from runtime import postgres
from runtime.postgres import Connection
from users.installed import Installed
from users.limits import LOCK_TIMEOUT

_LOCK = "SELECT pg_try_advisory_lock(hashtext('hongbao_forget'))"
_SETTINGS = {
    "lock_timeout": LOCK_TIMEOUT,
    "application_name": "hongbao:forget",
    "plan_cache_mode": "force_custom_plan",
}


@dataclass(frozen=True)
class Sessions:
    """Open connections: the wallet's, and the SETs' by name."""

    at: Installed
    wallet: Connection
    sets: Mapping[str, Connection]


@asynccontextmanager
async def opened(at: Installed) -> AsyncIterator[Sessions]:
    """Open all of them for the block; no rotation and no move takes days elsewhere meanwhile.

    Raises Unavailable if a database is away, Refused `forget_busy` if another such command, a rotation or a move is at
    work; nothing was changed then.
    """
    async with AsyncExitStack() as stack:
        wallet = await stack.enter_async_context(postgres.connected(at.wallet_owner_dsn, **_SETTINGS))
        if not await wallet.fetchval(_LOCK):
            raise Refused("forget_busy", "another command forgets a user just now; nothing was changed: try again")
        sets = {}
        for one in at.sets:
            sets[one.name] = await stack.enter_async_context(postgres.connected(one.owner_dsn, **_SETTINGS))
            if not await lock_days(sets[one.name]):
                sentence = f"a rotation or a move is at work on {one.name}; nothing was changed: wait for its end"
                raise Refused("forget_busy", sentence)
        yield Sessions(at, wallet, sets)
