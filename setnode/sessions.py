"""The connections of one server to its SET's Postgres: one for each kind of work, so that none waits for another."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from runtime.postgres import Session
from runtime.postgres.keepalive import KEEPALIVE_S, PROBE_S, PROBES
from setnode.limits import CARDS_S, FROZEN_TRANSACTION_S, RECYCLE_AFTER

OnConnect: TypeAlias = Callable[[Any], Coroutine[Any, Any, None]]
OPTIONS: dict[str, dict[str, str]] = {
    "create": {},
    # Planned with constants: all partitions but those asked for are pruned before they are opened.
    "load": {"plan_cache_mode": "force_custom_plan"},
    "fetch": {"plan_cache_mode": "force_custom_plan"},
    "payout": {"plan_cache_mode": "force_custom_plan"},
    "expiry": {"plan_cache_mode": "force_custom_plan"},
    "sweep": {},
    "listen": {},
    "watch": {},
    # What no list waits for any more must not go on beside the commits.
    "lists": {"plan_cache_mode": "force_custom_plan", "statement_timeout": str(round(CARDS_S * 1000))},
    "cold": {"plan_cache_mode": "force_custom_plan"},
}
"""Server settings by kind of work; those that commit claims are apart, because there are several of them."""
_ALL = {
    # A server that is frozen in a transaction, or whose host is lost, must not hold its rows against the next one.
    "idle_in_transaction_session_timeout": str(round(FROZEN_TRANSACTION_S * 1000)),
    # Nor the locks of its sessions, once its host is gone.
    "tcp_keepalives_idle": str(KEEPALIVE_S),
    "tcp_keepalives_interval": str(PROBE_S),
    "tcp_keepalives_count": str(PROBES),
}
"""Settings of every session."""


class Sessions:
    """All sessions of the server `server`; each connects when it is first used. Postgres sees their names.

    `look` is awaited with each new connection of those that load logs and commit claims.
    """

    def __init__(self, dsn: str, server: str, claim_connections: int, look: OnConnect) -> None:
        self._dsn = dsn
        self._server = server
        self._by_work = {
            work: self._session(work, options, look if work == "load" else None) for work, options in OPTIONS.items()
        }
        self.claims = [self._session("claims", {}, look) for _ in range(claim_connections)]

    def __getitem__(self, work: str) -> Session:
        """Return the session of a kind of work."""
        return self._by_work[work]

    async def close(self) -> None:
        """Close all of them."""
        await asyncio.gather(*(session.close() for session in [*self._by_work.values(), *self.claims]))

    def _session(self, work: str, options: dict[str, str], on_connect: OnConnect | None = None) -> Session:
        named = {"application_name": f"{self._server}:{work}", **_ALL, **options}
        return Session(self._dsn, named, recycle_after=RECYCLE_AFTER, on_connect=on_connect)
