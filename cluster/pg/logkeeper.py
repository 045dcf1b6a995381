"""Keeps the log of one Postgres as it is written, through restarts of the server and of us, and says when it cannot.

pg_receivewal would try one address for ever, without a word to us: where a server comes back on another port, or its
slot is lost, nothing more would be kept. So it makes one try (`--no-loop`), and the tries are made here.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from cluster.machine.exclusive import held
from cluster.pg.pgprograms import STOP, PgPrograms, Source
from envelope.errors import Refused, Unavailable
from runtime import postgres
from upkeep.backup import BackupFolder, LogState, log_state

SLOT = "hongbao_backup"
SHORT_S = 60.0
MOST_PAUSE_S = 10.0
"""Between two tries; a server keeps gigabytes of log for us, which it writes in minutes."""
SETTLED_S = 10.0
"""A receiver that held for so long had found its server: what ends it is told again, and the pauses begin anew."""

_SLOT = """SELECT s.wal_status, s.active, (pg_current_wal_flush_lsn() - r.flush_lsn)::bigint AS behind_bytes
FROM pg_replication_slots s LEFT JOIN pg_stat_replication r ON r.pid = s.active_pid WHERE s.slot_name = $1"""
_SERVER = "SELECT pg_walfile_name(pg_current_wal_flush_lsn())"
_LOST = "the server has thrown away log that was not received yet; `backup log --anew`, then `backup take`"


@dataclass(frozen=True)
class Standing:
    """How the kept log stands, and how much of the server's log is not here; None where nobody is connected."""

    state: LogState
    behind_bytes: int | None


class LogKeeper:
    """Keeps the log in one folder. `find` is asked for the server before each try: a restart gives it a new address."""

    def __init__(self, find: Callable[[], Source], folder: BackupFolder, say: Callable[[str], None]) -> None:
        self._find = find
        self._folder = folder
        self._say = say

    @cached_property
    def _programs(self) -> PgPrograms:
        # Only who receives needs them: finding them may copy them into the folder.
        return PgPrograms(self._folder)

    async def receive(self, stop: asyncio.Event, *, anew: bool = False) -> None:
        """Keep the log until `stop`; what a disk has is never lost. Goes on where it was left, or `anew`.

        A replication slot makes the server keep what we have not got yet, within max_slot_wal_keep_size. Anew the log
        kept so far is put aside and one begins that does not follow it: restores need a base copy taken after that.
        While the server is away it is tried again and again, and each new reason is said once. Raises Refused
        `log_lost` where no try can help, `log_already_kept` where another process is at it.
        """
        self._programs.prepare()
        with held(self._folder.home / "log.lock", self._taken):
            if anew:
                await self._end()
            attempt, told, loop = 0, "", asyncio.get_running_loop()
            while not stop.is_set():
                began = loop.time()
                reason = await self._try(stop)
                if loop.time() - began > SETTLED_S:
                    attempt, told = 0, ""
                if reason != told and not stop.is_set():
                    self._say(f"the log is not kept just now: {reason}; trying again until it is")
                    told = reason
                await _wait(stop, min(MOST_PAUSE_S, 0.1 * 2 ** min(attempt, 10)))
                attempt += 1

    async def standing(self) -> Standing:
        """Say how the kept log stands against the server; raises Refused `not_up` or Unavailable when it is away."""
        connection = await postgres.connect(self._find().dsn)
        try:
            server = await connection.fetchval(_SERVER)
            slot = await connection.fetchrow(_SLOT, SLOT)
        finally:
            await connection.close(timeout=postgres.CONNECT_S)
        newest = self._folder.newest()
        if slot is None:
            return Standing(log_state(newest, server, None, connected=False), None)
        return Standing(log_state(newest, server, slot["wal_status"], connected=slot["active"]), slot["behind_bytes"])

    async def _try(self, stop: asyncio.Event) -> str:
        """Receive until `stop` or until it ends by itself; returns why."""
        try:
            source = self._find()
            await self._check_slot(source)
            where = ["-D", str(self._folder.wal), "--slot", SLOT]
            await self._programs.run("pg_receivewal", [*where, "--create-slot", "--if-not-exists"], SHORT_S, source)
        except Unavailable as away:
            return away.detail
        except Refused as refusal:
            if refusal.code != "not_up":
                raise
            return refusal.detail
        start = self._programs.log.size()
        child = self._programs.start("pg_receivewal", [*where, "--synchronous", "--no-loop"], source)
        stopping, ended = asyncio.ensure_future(stop.wait()), asyncio.ensure_future(child.wait())
        try:
            await asyncio.wait({stopping, ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            await child.stop(*STOP)
            await ended
        said = self._programs.log.since(start)
        if "has already been removed" in said or "not in this server's history" in said:
            raise Refused("log_lost", f"{self._programs.said(start)}: {_LOST}")
        return self._programs.said(start)

    async def _check_slot(self, source: Source) -> None:
        connection = await postgres.connect(source.dsn)
        try:
            slot = await connection.fetchrow(_SLOT, SLOT)
        finally:
            await connection.close(timeout=postgres.CONNECT_S)
        if slot is not None and slot["wal_status"] == "lost":
            raise Refused("log_lost", _LOST)

    async def _end(self) -> None:
        """Let go of what the server keeps for us and put aside what we have."""
        connection = await postgres.connect(self._find().dsn)
        try:
            slot = await connection.fetchrow(_SLOT, SLOT)
            if slot is not None and slot["active"]:
                raise Refused("log_already_kept", "another receiver is connected to the server; stop it first")
            if slot is not None:
                await connection.execute("SELECT pg_drop_replication_slot($1)", SLOT)
        finally:
            await connection.close(timeout=postgres.CONNECT_S)
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
