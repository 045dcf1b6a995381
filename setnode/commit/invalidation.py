"""Invalidation between the servers of a SET: a server notifies the owner of an envelope that it has written to.

In a failover a stand-in writes to envelopes whose owner may still be alive with an old log in memory. The owner's opens
are safe, because its claims conflict with the stand-in's in Postgres; but it would show an old state. So every server
that writes to a foreign envelope notifies in the same transaction (NOTIFY), and the owner reads that log again before
it shows it. In ordinary operation no server writes to foreign envelopes and nothing is sent (docs/decisions/0007).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from errors import Refused
from runtime import logs, postgres
from setnode.limits import LISTEN_DEADLINE_S, LISTEN_EVERY_S, LISTEN_PAUSE_S, NOTIFY_IDS

CHANNEL = "hongbao_foreign"
TOPOLOGY = "hongbao_topology"
"""Notified by an operator's command that has written the topology file: it is to be read now."""
ALL = "*"
"""In place of IDs: more envelopes than one notification can name."""

_log = logs.get("setnode")


def payload(envelope_ids: Sequence[int]) -> str:
    """Return the notification about these envelopes; empty for none, ALL for more than fit."""
    return ",".join(map(str, envelope_ids)) if len(envelope_ids) <= NOTIFY_IDS else ALL


class ForeignWrites:
    """Listens for writes of other servers to envelopes of this one.

    `invalidate` is called with an envelope's ID, or without argument for all of them; `reload` reads the topology. A
    connection that was lost without an error would receive nothing, so it is checked by a query; whenever notifications
    may have been missed, everything is invalidated.
    """

    def __init__(
        self, session: postgres.Session, invalidate: Callable[..., None], reload: Callable[[], object] = lambda: None
    ) -> None:
        self._session = session
        self._invalidate = invalidate
        self._reload = reload

    async def run(self) -> None:
        """Listen until cancelled; while it cannot listen, the server goes on serving."""
        attempt = 0
        while True:
            try:
                listening = await self._session.run(self._listen, LISTEN_DEADLINE_S)
                self._invalidate()
                attempt = 0
                while await self._session.run(_check, LISTEN_DEADLINE_S) is listening:
                    await asyncio.sleep(LISTEN_EVERY_S)
            except Exception as error:  # noqa: BLE001 - a server that cannot listen must go on serving
                attempt += 1
                _log.warning("not listening to the other servers", error=str(error))
            self._session.drop()
            await postgres.pause(attempt, most_s=LISTEN_PAUSE_S)

    async def _listen(self, connection: Any) -> Any:
        await connection.add_listener(CHANNEL, self._on_foreign_write)
        await connection.add_listener(TOPOLOGY, self._on_topology)
        return connection

    def _on_foreign_write(self, _connection: Any, _pid: int, _channel: str, text: str) -> None:
        if text == ALL:
            self._invalidate()
            return
        for digits in text.split(","):
            self._invalidate(int(digits))

    def _on_topology(self, *_: object) -> None:
        try:
            self._reload()
        except Refused as error:
            _log.warning("a new topology was announced and cannot be used", error=error.detail)


async def _check(connection: Any) -> Any:
    """Run a query; returns the connection that answered, which is another one if the session was remade."""
    await connection.fetchval("SELECT 1")
    return connection
