"""Backups of one Postgres of the stack: base copies, the log that follows, and a restore to any instant since.

Postgres' own programs do the work: pg_basebackup, pg_verifybackup, pg_receivewal. What lies where is `upkeep.backup`.
"""

import asyncio
import os
import shlex
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from cluster.account import server_account
from cluster.binaries import find_binaries
from cluster.child import Child, Command
from cluster.logfile import LogFile
from cluster.postgres import Postgres, PostgresSpec
from envelope.errors import Refused, Unavailable
from runtime import postgres
from upkeep.backup import BackupFolder, Base

SLOT = "hongbao_backup"
COPY_S = 24 * 3600.0
"""A base copy of a terabyte at 20 MB/s; whoever waits less long presses Ctrl-C."""
SHORT_S = 60.0
STOP = ((signal.SIGINT, 10.0), (signal.SIGTERM, 5.0))
FREE_SHARE = 1.2
"""Room that a base copy needs, against what the cluster has now."""


@dataclass(frozen=True)
class Source:
    """A running Postgres, by the superuser's DSN, with all passwords of its roles."""

    name: str
    dsn: str
    passwords: dict[str, str]


class Backups:
    """The backups of one server in one folder."""

    def __init__(self, source: Source, root: Path) -> None:
        self.source = source
        self.folder = BackupFolder(root.absolute(), source.name)
        self._account = server_account()
        self._binaries = find_binaries(self._account, self.folder.root)

    async def take(self) -> Base:
        """Copy the whole cluster while it serves, verify the copy, and let it count. Safe to be killed in."""
        self._prepare()
        await self._check_space()
        unfinished = self.folder.unfinished
        await asyncio.to_thread(shutil.rmtree, unfinished, ignore_errors=True)
        words = ["-D", str(unfinished), "--wal-method=stream", "--checkpoint=fast", "--manifest-checksums=SHA256"]
        await self._run("pg_basebackup", [*self._where(), *words, "--no-password"], COPY_S)
        await self._run("pg_verifybackup", [str(unfinished)], COPY_S)
        done = self.folder.seal(datetime.now(UTC))
        return next(one for one in self.folder.bases() if one.path == done)

    async def receive(self, stop: asyncio.Event) -> None:
        """Keep the log as it is written, until `stop`; what a disk has is never lost. Goes on where it was left.

        A replication slot makes the server keep what we have not got yet, within max_slot_wal_keep_size.
        """
        self._prepare()
        where = ["-D", str(self.folder.wal), *self._where(), "--slot", SLOT, "--no-password"]
        await self._run("pg_receivewal", [*where, "--create-slot", "--if-not-exists"], SHORT_S)
        child = self._start("pg_receivewal", [*where, "--synchronous"])
        stopping, ended = asyncio.ensure_future(stop.wait()), asyncio.ensure_future(child.wait())
        try:
            await asyncio.wait({stopping, ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            await child.stop(*STOP)
            await ended
        if not stop.is_set():
            raise Unavailable("log_not_received", f"pg_receivewal ended: {self._log.tail(2)}")

    async def restore(self, into: Path, until: datetime | None) -> Postgres:
        """Make a cluster as it was at `until` (None: at the end of the log) under `into`; returns it, running.

        The running one is not touched. Raises Refused `no_backup`, `log_has_a_hole`, `log_ends_before`, `folder_taken`.
        """
        base = self.folder.base_for(until)
        if (hole := self.folder.gap_after(base)) is not None:
            raise Refused("log_has_a_hole", f"{self.folder.wal} lacks {hole}; only a newer base copy helps: take one")
        target = into.absolute() / "postgres" / self.source.name
        if target.exists():
            raise Refused("folder_taken", f"{target} is there already; choose another folder")
        await asyncio.to_thread(self._copy, base, target)
        spec = PostgresSpec(
            f"restored-{self.source.name}", target, into.absolute() / "restore.log", self.source.passwords,
            settings=self._recovery(until), start_s=COPY_S,
        )  # fmt: skip
        server = Postgres(spec, account=self._account)
        try:
            await server.start()
        except Unavailable as error:
            if "before configured recovery target" in server.log.tail(30):
                raise Refused("log_ends_before", f"the log kept in {self.folder.wal} ends before {until}") from error
            raise
        return server

    def _recovery(self, until: datetime | None) -> dict[str, str]:
        kept = shlex.quote(f"{self.folder.wal}/").replace("%", "%%")
        settings = {
            "restore_command": f'cp {kept}%f "%p" 2>/dev/null || cp {kept}%f.partial "%p" 2>/dev/null',
            # Ready means then that the instant is reached, not that one may watch.
            "hot_standby": "off",
        }
        if until is not None:
            settings |= {"recovery_target_time": until.isoformat(sep=" "), "recovery_target_action": "promote"}
        return settings

    def _copy(self, base: Base, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        for folder in (target.parents[1], target.parent):
            folder.chmod(0o711 if self._account.drop else 0o700)
        self._account.own(target.parent)
        aside = target.with_name(f"{target.name}.new")
        shutil.rmtree(aside, ignore_errors=True)
        shutil.copytree(base.path, aside, symlinks=True)
        (aside / "recovery.signal").touch()
        for path in (aside, *aside.rglob("*")):
            self._account.own(path)
        aside.rename(target)

    @property
    def _log(self) -> LogFile:
        return LogFile(self.folder.root / self.source.name / "backup.log")

    def _prepare(self) -> None:
        """Make the folders; the account that runs Postgres writes into them."""
        home = self.folder.root / self.source.name
        try:
            for folder in (home, self.folder.wal, self.folder.unfinished.parent):
                folder.mkdir(parents=True, exist_ok=True)
                folder.chmod(0o700)
                self._account.own(folder)
        except OSError as error:
            raise Refused("backup_folder_unwritable", f"cannot write to {home} ({error.strerror})") from error
        if not self._account.may("-w", home):
            raise Refused(
                "backup_folder_unreachable",
                f"Postgres runs as {self._account.name}, who cannot enter {self.folder.root}; choose another folder",
            )

    async def _check_space(self) -> None:
        connection = await postgres.connect(self.source.dsn)
        try:
            needed = FREE_SHARE * await connection.fetchval(
                "SELECT sum(pg_database_size(oid))::bigint FROM pg_database"
            )
        finally:
            await connection.close(timeout=postgres.CONNECT_S)
        free = shutil.disk_usage(self.folder.root).free
        if free < needed:
            raise Refused(
                "disk_full",
                f"{free // 1024**2} MB are free at {self.folder.root}; {int(needed) // 1024**2} MB are needed",
            )

    def _where(self) -> list[str]:
        parts = urlsplit(self.source.dsn)
        return ["-h", str(parts.hostname), "-p", str(parts.port), "-U", unquote(parts.username or "")]

    def _start(self, program: str, words: Sequence[str]) -> Child:
        # In the environment, not among the words: those stand in the list of processes for everybody.
        env = {
            "LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath),
            "PGPASSWORD": unquote(urlsplit(self.source.dsn).password or ""),
        }  # fmt: skip
        return Child.start(Command([self._binaries.program(program), *words], env, self._account, self._log))

    async def _run(self, program: str, words: Sequence[str], limit_s: float) -> None:
        start = self._log.size()
        child = self._start(program, words)
        try:
            ended = await child.ended_within(limit_s)
        finally:
            await child.stop(*STOP)
        if not ended or child.returncode != 0:
            said = self._log.since(start).strip().splitlines()
            reason = said[-1] if said else "it said nothing"
            raise Unavailable(
                "backup_failed", f"{program} of {self.source.name} failed: {reason} (log: {self._log.path})"
            )
