"""Runs Postgres' own programs for a server and its backup folder: pg_basebackup, pg_verifybackup, pg_receivewal."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from backup.folder import BackupFolder
from backup.limits import CONNECT_S, STOP
from errors import Refused, Unavailable
from machine.account import account_of, own_folder
from machine.child import Child, Command
from machine.logfile import LogFile
from machine.postgres.binaries import find_binaries
from runtime.dsn import hosts, password_of, tls_environment, wanted

_NOTICED = "keepalives_idle=5 keepalives_interval=2 keepalives_count=3 tcp_user_timeout=10000"
"""A server that is lost without a word is noticed within 20 s; libpq by itself waits for as long as TCP does, hours."""
IDENTIFIER = "SELECT system_identifier FROM pg_control_system()"


@dataclass(frozen=True)
class Source:
    """A running Postgres: the superuser's DSN, and the passwords of its roles, which a restored copy has, too."""

    name: str
    dsn: str
    passwords: dict[str, str]


class PgPrograms:
    """Runs them as the account to which the server's folder belongs; their output goes to `log` in it.

    A new folder belongs to whoever takes the first copy, or for root to the account that runs Postgres.
    """

    def __init__(self, folder: BackupFolder) -> None:
        self.folder = folder
        self.account = account_of(folder.home)
        self._binaries = find_binaries(self.account, folder.root)
        self.log = LogFile(folder.home / "backup.log")

    def check_release(self, server: int) -> None:
        """Raise Refused `postgres_release` unless our programs are of the server's major release.

        pg_verifybackup reads a copy of its own release only.
        """
        if self._binaries.major != server:
            raise Refused(
                "postgres_release",
                f"the server is Postgres {server}, and the programs in {self._binaries.folder} are of "
                f"{self._binaries.major}; name those of {server}: HONGBAO_PG_BIN=/usr/lib/postgresql/{server}/bin",
            )

    def prepare(self) -> None:
        """Make the folders, owned by the account that runs Postgres.

        Raises Refused `backup_folder_unwritable`, `backup_folder_unreachable`, `symlink_refused`.
        """
        home = self.folder.home
        try:
            if not self.folder.root.exists():
                self.folder.root.mkdir(parents=True, mode=0o700)
                self.folder.root.chmod(0o711 if self.account.drop_privileges else 0o700)
            with own_folder(home, self.account) as at_home:
                for folder in (self.folder.wal, self.folder.base):
                    with own_folder(folder, self.account, at=at_home):
                        pass
        except OSError as error:
            raise Refused("backup_folder_unwritable", f"cannot write to {home} ({error.strerror})") from error
        if not self.account.can_access("-w", home):
            raise Refused(
                "backup_folder_unreachable",
                f"Postgres runs as {self.account.name}, who cannot enter {self.folder.root}; choose another folder",
            )

    async def start(self, program: str, words: Sequence[str], source: Source | None = None) -> Child:
        """Start a program; one that connects gets `source`, and connects as its superuser."""
        env = {"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)}
        where: list[str] = []
        if source is not None:
            parts, found = urlsplit(source.dsn), hosts(source.dsn)
            where = ["-h", ",".join(host for host, _ in found), "-p", ",".join(str(port) for _, port in found)]
            where += ["-U", unquote(parts.username or ""), "--no-password", "-d", _NOTICED]
            env["PGTARGETSESSIONATTRS"] = wanted(source.dsn)
            env["PGCONNECT_TIMEOUT"] = str(CONNECT_S)
            # In the environment: every user of the machine can read a process' arguments.
            env["PGPASSWORD"] = password_of(source.dsn) or ""
            env |= tls_environment(source.dsn)
        await self.log.bound()
        return Child.start(Command([self._binaries.program(program), *where, *words], env, self.account, self.log))

    async def run(self, program: str, words: Sequence[str], limit_s: float, source: Source | None = None) -> None:
        """Run a program to its end; raises Unavailable `backup_failed` with the last line of its output."""
        start = self.log.size()
        child = await self.start(program, words, source)
        try:
            ended = await child.ended_within(limit_s)
        finally:
            await child.stop(*STOP)
        if not ended or child.returncode != 0:
            raise Unavailable("backup_failed", f"{program} failed: {self.last_line(start)} (log: {self.log.path})")

    def last_line(self, start: int) -> str:
        """Return the last line of output after byte `start` of the log."""
        lines = self.log.since(start).strip().splitlines()
        return lines[-1] if lines else "no output"
