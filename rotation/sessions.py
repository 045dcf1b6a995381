"""The connections of one run: the one that holds the lock and works, and, once asked for, those that read."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from rotation import faults
from rotation.exclusive import alone
from rotation.target import RotationTarget
from runtime import postgres


class Sessions:
    """`work` is the owner's, impatient with locks; it alone changes tables and register."""

    def __init__(self, target: RotationTarget, work: Any, stack: AsyncExitStack) -> None:
        self.work = work
        self._target = target
        self._stack = stack
        self._open: dict[str, Any] = {}

    async def archive(self) -> Any:
        """Return the owner's patient connection, on which the archive writes and reads back."""
        return await self._one("archive", self._target.dsn)

    async def wallet(self) -> Any:
        """Return the auditor's connection to the wallet."""
        return await self._one("proof", self._target.wallet_dsn)

    async def _one(self, name: str, dsn: str) -> Any:
        if name not in self._open:
            connection = await postgres.connect(
                dsn, application_name=f"hongbao:{name}", plan_cache_mode="force_custom_plan"
            )
            self._stack.push_async_callback(connection.close, timeout=2.0)
            self._open[name] = connection
        return self._open[name]


@asynccontextmanager
async def sessions(target: RotationTarget) -> AsyncIterator[Sessions]:
    """Be the one who rotates this SET, and have its connections; raises Refused `rotation_busy`, Unavailable.

    What the drivers raise inside becomes an error of ours (`faults`).
    """
    with faults.of_set(target.name):
        async with alone(target.dsn) as work, AsyncExitStack() as stack:
            yield Sessions(target, work, stack)
