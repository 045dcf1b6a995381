"""The connections of one run: one that holds the lock and changes the day; two more, opened when they are needed."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from rotation import driver_errors
from rotation.lock import rotation_lock
from rotation.set_access import SetAccess
from runtime.postgres import Connection, connected


class Sessions:
    """`work` is the owner's connection, with a short `lock_timeout`; it alone changes day tables and register."""

    def __init__(self, set_access: SetAccess, work: Connection, stack: AsyncExitStack) -> None:
        self.work = work
        self._set_access = set_access
        self._stack = stack
        self._open: dict[str, Connection] = {}

    async def archive(self) -> Connection:
        """Return an owner's connection without `lock_timeout`, on which the archive exports and reads back."""
        return await self._one("archive", self._set_access.dsn)

    async def wallet(self) -> Connection:
        """Return the auditor's connection to the wallet."""
        return await self._one("proof", self._set_access.wallet_dsn)

    async def _one(self, name: str, dsn: str) -> Connection:
        if name not in self._open:
            settings = {"application_name": f"hongbao:{name}", "plan_cache_mode": "force_custom_plan"}
            self._open[name] = await self._stack.enter_async_context(connected(dsn, **settings))
        return self._open[name]


@asynccontextmanager
async def sessions(set_access: SetAccess) -> AsyncIterator[Sessions]:
    """Hold this SET's rotation lock for the block and give its connections.

    Raises Refused `rotation_busy`, Unavailable. Drivers' errors within the block are translated (`driver_errors`).
    """
    with driver_errors.translated(set_access.name):
        async with rotation_lock(set_access.dsn) as work, AsyncExitStack() as stack:
            yield Sessions(set_access, work, stack)
