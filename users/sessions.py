"""The connections of one command that changes names: the wallet's and every SET's, as the owner, with the day lock."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass

import asyncpg

from days.lock import lock_days
from errors import Refused, Unavailable
from runtime import postgres
from runtime.postgres import Connection
from users.installed import Installed
from users.limits import LOCK_TIMEOUT

_LOCK = "SELECT pg_try_advisory_lock(hashtext('hongbao_forget'))"
_LOCKED = "55P03"
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
        with _translated():
            yield Sessions(at, wallet, sets)


@contextmanager
def _translated() -> Iterator[None]:
    """Translate what Postgres says to a sentence; what was begun is finished by the next run."""
    again = "; what is done is done, and the command, run again, does the rest"
    try:
        yield
    except TimeoutError as error:
        raise Unavailable("forget_waits", f"Postgres has not answered in time{again}") from error
    except asyncpg.PostgresError as error:
        state = getattr(error, "sqlstate", "")
        if state == _LOCKED:
            raise Unavailable("forget_waits", f"a table is held by another process: {error}{again}") from error
        if state.startswith("HB"):
            raise Refused("forget_refused", f"{error}{again}") from error
        if postgres.is_lost(error):
            raise Unavailable("database_unavailable", f"Postgres was lost: {error}{again}") from error
        raise
    except (asyncpg.InterfaceError, OSError) as error:
        raise Unavailable("database_unavailable", f"Postgres was lost: {error}{again}") from error
