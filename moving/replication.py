"""Logical replication of one database's leaves: publication and slot at the source, subscription at the target.

Their names hold the number of the database and the OID of the source's Postgres database, so two moves never share one.
The subscription holds the source's password in its text: statements that carry it run `quietly`, so that neither the
server's log nor pg_stat_activity, which the audit's role reads, shows it. Rows go from leaf to leaf. The target's apply
worker writes them as a replica, so ordinary triggers, which have fired at the source, do not fire again. A watermark is
a number in `move_beat` that is replicated behind all rows before it.
"""

import asyncio
from collections.abc import Callable, Sequence

from errors import Refused, Unavailable
from moving.leaves import Leaf
from moving.limits import SLOT_POLL_S, SLOT_S, SYNC_S, WATERMARK_POLL_S, WATERMARK_S
from runtime.postgres import Connection

_ADVANCE = """INSERT INTO move_beat AS m (xx, beat) VALUES ($1, 1)
ON CONFLICT (xx) DO UPDATE SET beat = m.beat + 1 RETURNING beat"""
_ARRIVED = "SELECT beat FROM move_beat WHERE xx = $1"
_SUBSCRIPTION = """SELECT oid FROM pg_subscription
WHERE subname = $1 AND subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())"""
_UNSYNCED = """SELECT count(*) FILTER (WHERE srsubstate <> 'r') AS waiting, count(*) AS tables
FROM pg_subscription_rel WHERE srsubid = $1"""
_SLOTS = """SELECT slot_name, active_pid FROM pg_replication_slots
WHERE database = current_database() AND starts_with(slot_name, $1)"""
_PUBLISHED = """SELECT schemaname || '.' || tablename AS leaf FROM pg_publication_tables
WHERE pubname = $1 AND tablename <> 'move_beat'"""

_QUIET = "SET track_activities = off; SET log_min_error_statement = panic; SET log_min_duration_statement = -1"
_LOUD = "RESET log_min_duration_statement; RESET log_min_error_statement; RESET track_activities"
_GRANT = "start that SET once with this version of ./run, which grants it (`schema.cluster_setup`)"


class Replication:
    """The replication of database `xx`; `dsn` is how the target's Postgres reaches the source, as its owner."""

    def __init__(self, xx: int, source: Connection, target: Connection, dsn: str) -> None:
        self._xx = xx
        self._source = source
        self._target = target
        self._dsn = dsn

    async def publish(self, leaves: Sequence[Leaf]) -> None:
        """Publish exactly these leaves and make the slot; waits for running transactions. Idempotent."""
        name = await self._name()
        if not await self._source.fetchval("SELECT 1 FROM pg_publication WHERE pubname = $1", name):
            await self._source.execute("INSERT INTO move_beat VALUES ($1, 0) ON CONFLICT DO NOTHING", self._xx)
            await self._source.execute(
                f"CREATE PUBLICATION {name} FOR TABLE move_beat WHERE (xx = {self._xx:d}) "
                "WITH (publish_via_partition_root = false)"
            )
        published = {row["leaf"] for row in await self._source.fetch(_PUBLISHED, name)}
        wanted = {leaf.name for leaf in leaves}
        if surplus := sorted(published - wanted):
            # The target must not receive their rows any more, or rotation has taken the leaf out of its schema here.
            await self._source.execute(f"ALTER PUBLICATION {name} DROP TABLE {', '.join(surplus)}")
        if lacking := sorted(wanted - published):
            await self._source.execute(f"ALTER PUBLICATION {name} ADD TABLE {', '.join(lacking)}")
        if not await self._source.fetchval("SELECT 1 FROM pg_replication_slots WHERE slot_name = $1", name):
            # Apart from the subscription: if both SETs are on one server, CREATE SUBSCRIPTION would wait for itself.
            await self._source.execute("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", name)

    async def subscribe(self) -> None:
        """Begin to copy and follow; if that has begun, take in the leaves that were published since. Idempotent."""
        name = await self._name()
        if await self._target.fetchval(_SUBSCRIPTION, name):
            await self._update_address(name)
            await self._target.execute(f"ALTER SUBSCRIPTION {name} REFRESH PUBLICATION")
            return
        # Left by an earlier move in the other direction; the copy brings the source's row.
        await self._target.execute("DELETE FROM move_beat WHERE xx = $1", self._xx)
        try:
            await self._quietly(
                f"CREATE SUBSCRIPTION {name} CONNECTION {self._conninfo} PUBLICATION {name} "
                f"WITH (create_slot = false, slot_name = '{name}', copy_data = true)"
            )
        except Refused:
            raise
        except Exception as error:
            if getattr(error, "sqlstate", "") == "42501":
                text = f"the owner may not subscribe on this Postgres ({error}); from Postgres 16 on it may"
                raise Refused("no_subscription", text) from error
            raise

    async def synced(self, progress: Callable[[int, int], None]) -> None:
        """Wait until each leaf's first copy is complete and takes in changes; raises Unavailable `sync_too_slow`."""
        oid = await self._target.fetchval(_SUBSCRIPTION, await self._name())
        try:
            async with asyncio.timeout(SYNC_S):
                while True:
                    row = await self._target.fetchrow(_UNSYNCED, oid)
                    progress(row["tables"] - row["waiting"], row["tables"])
                    if not row["waiting"]:
                        return
                    await asyncio.sleep(SLOT_POLL_S)
        except TimeoutError:
            text = "the first copy is not there yet; look at the log of the new SET's Postgres and run this again"
            raise Unavailable("sync_too_slow", text) from None

    async def wait_for_watermark(self) -> float:
        """Write a watermark at the source and wait until it is at the target; returns the lag in seconds.

        On return the target has every row that was committed at the source before this call. Raises Unavailable
        `replication_lags`.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        watermark = await self._source.fetchval(_ADVANCE, self._xx)
        try:
            async with asyncio.timeout(WATERMARK_S):
                while (await self._target.fetchval(_ARRIVED, self._xx) or 0) < watermark:
                    await asyncio.sleep(WATERMARK_POLL_S)
        except TimeoutError:
            text = f"the copy is more than {WATERMARK_S:.0f} s behind; look at the log of the new SET's Postgres"
            raise Unavailable("replication_lags", text) from None
        return loop.time() - began

    async def end(self) -> None:
        """Drop subscription, slots and publication. Idempotent. Raises Unavailable `slot_in_use`.

        The subscription is dropped without its slot, so that the target need not reach the source. The slots, its own
        and those of unfinished first copies, are dropped at the source, where they would keep the log for ever.
        """
        name = await self._name()
        oid = await self._target.fetchval(_SUBSCRIPTION, name)
        if oid is not None:
            await self._update_address(name)
            await self._target.execute(f"ALTER SUBSCRIPTION {name} DISABLE")
            await self._target.execute(f"ALTER SUBSCRIPTION {name} SET (slot_name = NONE)")
            await self._target.execute(f"DROP SUBSCRIPTION {name}")
            await self._drop_slots(f"pg_{oid:d}_sync_")
        await self._drop_slots(name)
        await self._source.execute(f"DROP PUBLICATION IF EXISTS {name}")

    @property
    def _conninfo(self) -> str:
        quoted = self._dsn.replace("'", "''")
        return f"'{quoted}'"

    async def _update_address(self, name: str) -> None:
        """Give the subscription the source's present address: a restart may have changed its port."""
        await self._quietly(f"ALTER SUBSCRIPTION {name} CONNECTION {self._conninfo}")

    async def _quietly(self, statement: str) -> None:
        """Execute a statement at the target whose text no log and no view of the server may show.

        Raises Refused `no_subscription` if the owner may not switch these off.
        """
        try:
            await self._target.execute(_QUIET)
        except Exception as error:
            if getattr(error, "sqlstate", "") == "42501":
                text = f"the owner may not keep a password out of the log ({error}); {_GRANT}"
                raise Refused("no_subscription", text) from error
            raise
        try:
            await self._target.execute(statement)
        finally:
            if not self._target.is_closed():
                await self._target.execute(_LOUD)

    async def _drop_slots(self, beginning: str) -> None:
        """Drop the source's slots whose names begin so; a reader that is still connected is terminated."""
        try:
            async with asyncio.timeout(SLOT_S):
                while rows := await self._source.fetch(_SLOTS, beginning):
                    for row in rows:
                        if row["active_pid"] is None:
                            await self._source.execute("SELECT pg_drop_replication_slot($1)", row["slot_name"])
                        else:
                            # After a target has gone its connection may look alive for a minute.
                            await self._source.execute("SELECT pg_terminate_backend($1)", row["active_pid"])
                            await asyncio.sleep(SLOT_POLL_S)
        except TimeoutError:
            text = "a replication slot of the move is still being read at the old SET; run this again"
            raise Unavailable("slot_in_use", text) from None

    async def _name(self) -> str:
        oid = await self._source.fetchval("SELECT oid FROM pg_database WHERE datname = current_database()")
        return f"hongbao_move_{self._xx:02d}_{oid:d}"
