"""Keeps the log of one Postgres as it is written, through restarts of the server and of this process.

pg_receivewal by itself would try one address for ever and report nothing: after a server came back on another port, or
its slot was lost, no more log would be kept. So it makes one try (`--no-loop`), and the retries are made here.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import asyncpg

from backup.folder import PARTIAL, SEGMENT_BYTES, BackupFolder, LogState, is_empty, log_state
from backup.limits import CONNECTED_S, RETRY_FIRST_S, RETRY_MOST_S, STOP
from backup.programs import IDENTIFIER, PgPrograms, Source
from errors import HongbaoError, Refused, Unavailable
from machine.file_lock import hold_lock
from runtime.postgres import connected
from schema.standbys import LOG_SLOT

_SLOT = """SELECT s.wal_status, s.active, (pg_current_wal_flush_lsn() - r.flush_lsn)::bigint AS behind_bytes
FROM pg_replication_slots s LEFT JOIN pg_stat_replication r ON r.pid = s.active_pid WHERE s.slot_name = $1"""
_SERVER = "SELECT pg_walfile_name(pg_current_wal_flush_lsn())"
_LOST = "the server has dropped log that was not received; run `backup log --anew`, then `backup take`"


@dataclass(frozen=True)
class LogStatus:
    """How the kept log stands, and how many bytes it lacks of the server's; None if no receiver is connected."""

    state: LogState
    behind_bytes: int | None


async def status_at_server(dsn: str) -> LogStatus:
    """Say how the log stands by the server's word alone, where the folder is not known.

    Whether what was received is whole, `LogKeeper.status` can tell. Raises Unavailable `database_unavailable`.
    """
    _, slot = await _at_server(dsn)
    if slot is None:
        return LogStatus(LogState.NONE, None)
    if slot["wal_status"] == "lost":
        return LogStatus(LogState.LOST, None)
    if not slot["active"]:
        return LogStatus(LogState.AWAY, None)
    behind = slot["behind_bytes"]
    late = behind is not None and behind > SEGMENT_BYTES
    return LogStatus(LogState.BEHIND if late else LogState.KEPT, behind)


async def _at_server(dsn: str) -> tuple[str, Mapping[str, Any] | None]:
    """Return the segment that a server writes, and its slot for the receiver of the log."""
    async with connected(dsn) as connection:
        return await connection.fetchval(_SERVER), await connection.fetchrow(_SLOT, LOG_SLOT)


async def status_of(dsn: str, newest: str | None) -> LogStatus:
    """Compare a log that is kept up to `newest` with the server's; raises Unavailable `database_unavailable`."""
    server, slot = await _at_server(dsn)
    if slot is None:
        return LogStatus(log_state(newest, server, None, connected=False), None)
    return LogStatus(log_state(newest, server, slot["wal_status"], connected=slot["active"]), slot["behind_bytes"])


class LogKeeper:
    """Keeps the log in one folder. `find` is called before each try: a restart may change the server's address."""

    def __init__(self, find: Callable[[], Source], folder: BackupFolder, say: Callable[[str], None]) -> None:
        self._find = find
        self._folder = folder
        self._say = say

    @cached_property
    def _programs(self) -> PgPrograms:
        # Looked up only by a receiver: that may copy the programs into the folder.
        return PgPrograms(self._folder)

    async def receive(self, stop: asyncio.Event, *, anew: bool = False) -> None:
        """Keep the log until `stop`, from where it ended; with `anew`, put it aside and begin another.

        A replication slot makes the server keep what was not received, up to max_slot_wal_keep_size. After `anew`,
        restores need a base copy that is taken after it. While the server is away, or something else stands in the way,
        it is tried again, and each new reason is printed once. Raises Refused `log_lost` if no retry can help,
        `log_already_kept` if another process receives, `backup_of_another` if the copies in the folder are another
        cluster's.
        """
        self._programs.prepare()
        with hold_lock(self._folder.home / "log.lock", self._taken):
            if anew:
                await self._end()
            attempt, printed, loop = 0, "", asyncio.get_running_loop()
            while not stop.is_set():
                began = loop.time()
                try:
                    reason = await self._try(stop)
                except HongbaoError:
                    raise
                except Exception as error:  # noqa: BLE001 - a full disk, a lost connection, our own fault: it may pass
                    reason = f"{type(error).__name__}: {error}"
                if loop.time() - began > CONNECTED_S:
                    attempt, printed = 0, ""
                if reason != printed and not stop.is_set():
                    self._say(f"the log is not kept just now: {reason}; retrying until it is")
                    printed = reason
                await _wait(stop, min(RETRY_MOST_S, RETRY_FIRST_S * 2 ** min(attempt, 10)))
                attempt += 1

    async def status(self) -> LogStatus:
        """Compare the kept log with the server's; raises Unavailable `database_unavailable` if the server is away."""
        return await status_of(self._find().dsn, self._folder.newest())

    async def _try(self, stop: asyncio.Event) -> str:
        """Receive until `stop` or until pg_receivewal ends; returns the reason."""
        try:
            # The installation is read again for each try: an operator who edits it will mend what is wrong now.
            source = self._find()
        except HongbaoError as wrong:
            return wrong.detail
        try:
            await self._ensure_slot(source)
        except Unavailable as away:
            return away.detail
        except asyncpg.PostgresError as error:
            return f"there is no slot on the server, and none can be made: {error}"
        for path in self._folder.wal.glob(f"*{PARTIAL}"):
            if is_empty(path):  # pg_receivewal would not go on with it, and there is nothing in it
                path.unlink()
        start = self._programs.log.size()
        where = ["-D", str(self._folder.wal), "--slot", LOG_SLOT, "--synchronous", "--no-loop"]
        child = await self._programs.start("pg_receivewal", where, source)
        stopping, ended = asyncio.ensure_future(stop.wait()), asyncio.ensure_future(child.wait())
        try:
            await asyncio.wait({stopping, ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            await child.stop(*STOP)
            await ended
        output = self._programs.log.since(start)
        if "has already been removed" in output or "not in this server's history" in output:
            raise Refused("log_lost", f"{self._programs.last_line(start)}: {_LOST}")
        return self._programs.last_line(start)

    async def _ensure_slot(self, source: Source) -> None:
        """Make the slot if there is none: from then on the server keeps what is not received."""
        async with connected(source.dsn) as connection:
            self._folder.check_cluster(str(await connection.fetchval(IDENTIFIER)))
            slot = await connection.fetchrow(_SLOT, LOG_SLOT)
            if slot is None:
                # Not by pg_receivewal --create-slot: its slot keeps nothing until the first byte is received, and on a
                # busy server that segment may be gone by then.
                await connection.execute("SELECT pg_create_physical_replication_slot($1, true)", LOG_SLOT)
        if slot is not None and slot["wal_status"] == "lost":
            raise Refused("log_lost", _LOST)

    async def _end(self) -> None:
        """Drop the slot, and with it what the server keeps, and put the log aside."""
        async with connected(self._find().dsn) as connection:
            slot = await connection.fetchrow(_SLOT, LOG_SLOT)
            if slot is not None and slot["active"]:
                raise Refused("log_already_kept", "another receiver is connected to the server; stop it first")
            if slot is not None:
                await connection.execute("SELECT pg_drop_replication_slot($1)", LOG_SLOT)
        self._folder.end_log(datetime.now(UTC))
        self._programs.prepare()

    def _taken(self, holder: str) -> Refused:
        return Refused("log_already_kept", f"process {holder} keeps the log in {self._folder.wal} already")


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
