"""Keeps this host's topology and switches up to what is published: read in the SET's Postgres, asked of the wallet."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from errors import HongbaoError
from published.follower import Follower
from runtime import logs
from runtime.postgres import is_lost
from setnode.limits import PUBLISHED_ASK_S, PUBLISHED_EVERY_S
from setnode.shared_session import SharedSession
from wire.link import Link

_log = logs.get("setnode")


class Publications:
    """`written` is called after a file was written. Run `run` as a task; `soon` has it look at once."""

    def __init__(self, topology: Path, session: SharedSession, wallet: Link, written: Callable[[], object]) -> None:
        self._follower = Follower(topology)
        self._session = session
        self._wallet = wallet
        self._written = written
        self._now = asyncio.Event()
        self._asked_at = float("-inf")

    def soon(self) -> None:
        """Look now: something was published, or a caller knows a newer topology."""
        self._now.set()

    async def run(self) -> None:
        """Look every PUBLISHED_EVERY_S until cancelled; while Postgres is away this server goes by what it has."""
        while True:
            for look in (self._look_in_postgres, self._ask_wallet):
                try:
                    if await look():
                        self._written()
                except Exception as error:  # noqa: BLE001 - requests are served by what this server has
                    if isinstance(error, HongbaoError) or is_lost(error):
                        _log.debug("not asked for what is published", error=str(error))
                    else:
                        _log.exception("not asked for what is published")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PUBLISHED_EVERY_S):
                    await self._now.wait()
            self._now.clear()

    async def _look_in_postgres(self) -> bool:
        return await self._session.run(self._read)

    async def _read(self, connection: Any) -> bool:
        return await self._follower.look_in(connection)

    async def _ask_wallet(self) -> bool:
        """Ask the wallet: a SET that was away when something was published has no row of it."""
        now = asyncio.get_running_loop().time()
        if not self._wallet.up or now - self._asked_at < PUBLISHED_ASK_S:
            return False
        self._asked_at = now
        return await self._follower.ask(self._wallet)
