"""Invalidation between the servers of a SET: a server notifies the owner of an envelope that it has written to.

In a failover a stand-in writes to envelopes whose owner may still be alive with an old log in memory. The owner's opens
are safe, because its claims conflict with the stand-in's in Postgres; but it would show an old state. So every server
that writes to a foreign envelope says so in the same transaction, in the table `foreign_write` and by NOTIFY, and the
owner reads that log again before it shows it. In ordinary operation no server writes to foreign envelopes
(docs/decisions/0007).

So does the operator's command that replaces a user's name (`users`), of cold envelopes, too.

The table is the authority, NOTIFY only tells sooner. Each server looks at it twice a second. It reads the rows of all
transactions that it cannot have seen at its last look: those from the oldest one on that was running then. So an owner
whose connection was silent or lost for a while learns exactly what was written meanwhile, and trusts its other logs.
Everything is invalidated only if that cannot be known:
at the start, after a longer silence than rows are kept, or if another Postgres answers (a failover, a restore).
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from errors import Refused
from runtime import logs, postgres, sql
from setnode.limits import (
    FOREIGN_KEPT_S,
    FOREIGN_READ,
    LISTEN_DEADLINE_S,
    LISTEN_EVERY_S,
    LISTEN_PAUSE_S,
    NOTIFY_IDS,
)

CHANNEL = "hongbao_foreign"
TOPOLOGY = "hongbao_topology"
"""Notified by an operator's command that has written the topology file: it is to be read now."""
ALL = "*"
"""In place of IDs: more envelopes than one notification can name; the table names them."""
_READ = sql.read("setnode", "read_foreign_writes")
_PRUNE = "DELETE FROM foreign_write WHERE at < now() - $1::interval"
_ON_ONE_DISK = "SET LOCAL synchronous_commit = local"
"""A pruned row may come back after a failover. To wait for a standby that is gone would cost a connection each time."""

_log = logs.get("setnode")


def payload(envelope_ids: Sequence[int]) -> str:
    """Return the notification about these envelopes; empty for none, ALL for more than fit."""
    return ",".join(map(str, envelope_ids)) if len(envelope_ids) <= NOTIFY_IDS else ALL


class Seen(NamedTuple):
    """The last look: transactions below `next_xid` had ended. `write_ids` are the rows that were taken in by it."""

    next_xid: int
    started_at: datetime
    at_s: float
    write_ids: frozenset[int]


class ForeignWrites:
    """Looks for writes of other servers to envelopes of this one.

    `invalidate` is called with an envelope's ID, or without argument for all of them; `reload` reads the topology;
    `saw_postgres` hears when a Postgres began that had not answered before.
    """

    def __init__(
        self,
        session: postgres.Session,
        invalidate: Callable[..., None],
        reload: Callable[[], object] = lambda: None,
        saw_postgres: Callable[[datetime], None] = lambda _: None,
    ) -> None:
        self._session = session
        self._invalidate = invalidate
        self._reload = reload
        self._saw_postgres = saw_postgres
        self._seen: Seen | None = None
        self._look_now = asyncio.Event()
        self._pruned_at = float("-inf")

    async def run(self) -> None:
        """Listen and look until cancelled; while it cannot, the server goes on serving."""
        attempt = 0
        while True:
            try:
                listening = await self._session.run(self._listen, LISTEN_DEADLINE_S)
                while await self._session.run(self._look, LISTEN_DEADLINE_S) is listening:
                    attempt = 0
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(LISTEN_EVERY_S):
                            await self._look_now.wait()
                    self._look_now.clear()
            except Exception as error:  # noqa: BLE001 - a server that cannot listen must go on serving
                attempt += 1
                _log.warning("not listening to the other servers", error=str(error))
            self._session.drop()
            await postgres.pause(attempt, most_s=LISTEN_PAUSE_S)

    async def _listen(self, connection: Any) -> Any:
        await connection.add_listener(CHANNEL, self._on_foreign_write)
        await connection.add_listener(TOPOLOGY, self._on_topology)
        return connection

    async def _look(self, connection: Any) -> Any:
        """Read what was written since the last look; returns the connection, another one if the session was remade."""
        seen = self._seen
        self.take_in(await connection.fetchrow(_READ, seen and seen.next_xid, FOREIGN_READ + 1))
        now = asyncio.get_running_loop().time()
        if now - self._pruned_at > FOREIGN_KEPT_S / 4:
            self._pruned_at = now
            async with connection.transaction():
                await connection.execute(_ON_ONE_DISK)
                await connection.execute(_PRUNE, timedelta(seconds=FOREIGN_KEPT_S))
        return connection

    def take_in(self, row: Mapping[str, Any]) -> None:
        """Invalidate the envelopes of a row of `read_foreign_writes`; all, if it cannot name those that were missed."""
        before, write_ids = self._seen, row["write_ids"]
        self._seen = Seen(row["next_xid"], row["started_at"], row["at_s"], frozenset(write_ids))
        if before is None or before.started_at != row["started_at"]:
            self._saw_postgres(row["started_at"])
        if (
            before is None
            or before.started_at != row["started_at"]
            or not 0 <= row["at_s"] - before.at_s < FOREIGN_KEPT_S / 2
            or len(write_ids) > FOREIGN_READ
        ):
            _log.info("all logs are read again before they are shown")
            self._invalidate()
            return
        for write_id, envelope_id in zip(write_ids, row["envelope_ids"], strict=True):
            if write_id not in before.write_ids:
                self._invalidate(envelope_id)

    def _on_foreign_write(self, _connection: Any, _pid: int, _channel: str, text: str) -> None:
        if text == ALL:
            self._look_now.set()
            return
        for digits in text.split(","):
            self._invalidate(int(digits))

    def _on_topology(self, *_: object) -> None:
        try:
            self._reload()
        except Refused as error:
            _log.warning("a new topology was announced and cannot be used", error=error.detail)
