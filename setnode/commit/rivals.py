"""What servers of a SET tell each other: "I wrote to an envelope that is yours".

In a failover a stand-in writes to envelopes whose owner may live on with an old log in memory. Its opens are safe, they
meet the stand-in's claims in Postgres; but it would show an old state. So whoever writes to a foreign envelope says so
in the same transaction (NOTIFY), and the owner reads that log anew before it shows it. In ordinary life nobody
writes to foreign envelopes and nothing is sent.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from envelope.errors import Refused
from runtime import logs, postgres
from setnode.limits import LISTEN_EVERY_S, LISTEN_PATIENCE_S

CHANNEL = "hongbao_foreign"
TOPOLOGY = "hongbao_topology"
"""Somebody has written the topology file and wants it read now, not at the next look."""
ALL = "*"
PAYLOAD_IDS = 350
"""A notification holds 8,000 bytes, an ID takes 20."""

_log = logs.get("setnode")


def payload(envelope_ids: Sequence[int]) -> str:
    """Return what to notify about these envelopes; empty for none, ALL for more than fit."""
    return ",".join(map(str, envelope_ids)) if len(envelope_ids) <= PAYLOAD_IDS else ALL


class Rivals:
    """Listens; `distrust` hears an envelope's ID, or nothing for all of them; `reload` reads the topology again.

    A connection that died without a word would listen for ever and hear nothing, so it is asked for a sign of life.
    """

    def __init__(
        self, session: postgres.Session, distrust: Callable[..., None], reload: Callable[[], object] = lambda: None
    ) -> None:
        self._session = session
        self._distrust = distrust
        self._reload = reload

    async def run(self) -> None:
        """Listen until cancelled; whatever was missed while not listening is made up for by distrusting everything."""
        attempt = 0
        while True:
            try:
                listening = await self._session.patiently(self._listen, LISTEN_PATIENCE_S)
                self._distrust()
                attempt = 0
                while await self._session.patiently(_sign_of_life, LISTEN_PATIENCE_S) is listening:
                    await asyncio.sleep(LISTEN_EVERY_S)
            except Exception as error:  # noqa: BLE001 - a server that cannot listen must go on serving
                attempt += 1
                _log.warning("not listening to the other servers", error=str(error))
            self._session.drop()
            await postgres.pause(attempt, most_s=1.0)

    async def _listen(self, connection: Any) -> Any:
        await connection.add_listener(CHANNEL, self._heard)
        await connection.add_listener(TOPOLOGY, self._heard_of_topology)
        return connection

    def _heard(self, _connection: Any, _pid: int, _channel: str, text: str) -> None:
        if text == ALL:
            self._distrust()
            return
        for digits in text.split(","):
            self._distrust(int(digits))

    def _heard_of_topology(self, *_: object) -> None:
        try:
            self._reload()
        except Refused as error:
            _log.warning("a new topology was announced and cannot be used", error=error.detail)


async def _sign_of_life(connection: Any) -> Any:
    """Ask the server something; returns the connection that answered, which may be another one than before."""
    await connection.fetchval("SELECT 1")
    return connection
