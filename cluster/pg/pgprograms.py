"""Postgres' own programs at work on one server and its backup folder: pg_basebackup, pg_verifybackup, pg_receivewal."""

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from cluster.machine.account import server_account
from cluster.machine.binaries import find_binaries
from cluster.supervision.child import Child, Command
from cluster.supervision.logfile import LogFile
from envelope.errors import Refused, Unavailable
from upkeep.backup import BackupFolder

STOP = ((signal.SIGINT, 10.0), (signal.SIGTERM, 5.0))


@dataclass(frozen=True)
class Source:
    """A running Postgres, by the superuser's DSN, with all passwords of its roles."""

    name: str
    dsn: str
    passwords: dict[str, str]


class PgPrograms:
    """Runs them as the account that servers run as; they write into `folder` and say what they do in its log."""

    def __init__(self, folder: BackupFolder) -> None:
        self.folder = folder
        self.account = server_account()
        self._binaries = find_binaries(self.account, folder.root)
        self.log = LogFile(folder.home / "backup.log")

    def prepare(self) -> None:
        """Make the folders; the account that runs Postgres writes into them. Raises Refused."""
        home = self.folder.home
        try:
            for folder in (home, self.folder.wal, self.folder.base):
                folder.mkdir(parents=True, exist_ok=True)
                folder.chmod(0o700)
                self.account.own(folder)
        except OSError as error:
            raise Refused("backup_folder_unwritable", f"cannot write to {home} ({error.strerror})") from error
        if not self.account.may("-w", home):
            raise Refused(
                "backup_folder_unreachable",
                f"Postgres runs as {self.account.name}, who cannot enter {self.folder.root}; choose another folder",
            )

    def start(self, program: str, words: Sequence[str], source: Source | None = None) -> Child:
        """Start a program, as the superuser of `source` where it is one that connects."""
        env = {"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)}
        where: list[str] = []
        if source is not None:
            parts = urlsplit(source.dsn)
            where = ["-h", str(parts.hostname), "-p", str(parts.port), "-U", unquote(parts.username or "")]
            where.append("--no-password")
            # In the environment, not among the words: those stand in the list of processes for everybody.
            env["PGPASSWORD"] = unquote(parts.password or "")
        self.log.bound()
        return Child.start(Command([self._binaries.program(program), *where, *words], env, self.account, self.log))

    async def run(self, program: str, words: Sequence[str], limit_s: float, source: Source | None = None) -> None:
        """Run a program to its end; raises Unavailable `backup_failed` with the last that it said."""
        start = self.log.size()
        child = self.start(program, words, source)
        try:
            ended = await child.ended_within(limit_s)
        finally:
            await child.stop(*STOP)
        if not ended or child.returncode != 0:
            raise Unavailable("backup_failed", f"{program} failed: {self.said(start)} (log: {self.log.path})")

    def said(self, start: int) -> str:
        """Return the last line that was said after `start`."""
        lines = self.log.since(start).strip().splitlines()
        return lines[-1] if lines else "it said nothing"
