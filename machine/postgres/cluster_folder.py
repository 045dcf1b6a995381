"""The folder of one Postgres cluster: made once by initdb, checked before each start.

A cluster that was there before and is missing now is never made again: the disk may only be unmounted, and an empty
cluster in its place would serve. `known` says what is known of it: None if none was made yet, its system identifier, or
"" if it was made and its identifier is not known.

Each SET runs initdb instead of copying one result: the clusters get different system identifiers, by which Postgres and
our backups distinguish the log of one SET from that of another.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from errors import Refused, Unavailable
from machine.account import Account
from machine.child import Child, Command
from machine.logfile import LogFile
from machine.postgres.binaries import Binaries

INITDB_S = 120.0
"""It takes a second; on a slow disk the sync of a thousand small files takes long."""
LEAVE_S = 5.0
"""A server whose parent was killed gets a signal from the kernel and ends in far less."""
TICK_S = 0.02


@dataclass(frozen=True)
class ClusterFolder:
    """The data of one cluster at `path`, whose parent folder is used by us only."""

    path: Path
    binaries: Binaries
    account: Account

    @property
    def stands(self) -> bool:
        """Whether there is a cluster."""
        return (self.path / "PG_VERSION").exists()

    async def ensure(self, password: str, log: LogFile, known: str | None = None) -> str:
        """Return the system identifier of the cluster, which is made first if `known` is None and there is none.

        `password` is for the superuser `postgres` of a new one; may be killed at any point. Waits until no earlier
        server works on it. Raises Refused (`cluster_missing`, `cluster_differs`, `postgres_other_version`,
        `postgres_already_running`; nothing is made or changed) or Unavailable `initdb_failed`.
        """
        if self.stands or known is not None:
            self.check_identity(known)
            self.check_major()
            await self._await_earlier_server()
        else:
            await self._make(password, log)
        return self.system_identifier()

    def system_identifier(self) -> str:
        """Return the number that initdb gave this cluster."""
        return read_system_identifier(self.path)

    def check_identity(self, known: str | None) -> None:
        """Raise Refused `cluster_missing`, or `cluster_differs` if it is not the one that is `known`."""
        if not self.stands:
            raise Refused(
                "cluster_missing",
                f"the cluster of {self.path.name} was in {self.path} and is not there; mount its disk, or restore it "
                f"from a backup (docs/operations/backup.md). An empty one would serve in its place: only if all of it "
                f"is lost for good, start once with --new-cluster {self.path.name}",
            )
        if known and (found := self.system_identifier()) != known:
            raise Refused(
                "cluster_differs",
                f"{self.path} holds the cluster {found}, that of {self.path.name} is {known}; put the right folder "
                f"there (was another disk mounted?). If this one is to be {self.path.name} from now on, start once "
                f"with --new-cluster {self.path.name}",
            )

    async def _make(self, password: str, log: LogFile) -> None:
        if not self.path.parent.exists():
            self.path.parent.mkdir(parents=True, mode=0o700)
        self.account.chown(self.path.parent)
        staging = self.path.with_name(self.path.name + ".new")
        shutil.rmtree(staging, ignore_errors=True)
        secret = self.path.with_name(self.path.name + ".password")
        secret.unlink(missing_ok=True)
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:  # noqa: ASYNC230, PTH123 - a few bytes, with a mode
            file.write(password)
        try:
            self.account.chown(secret)
            await self._initdb(staging, secret, log)
        finally:
            secret.unlink(missing_ok=True)
        staging.rename(self.path)

    async def _initdb(self, target: Path, secret: Path, log: LogFile) -> None:
        command = [self.binaries.program("initdb"), "-D", str(target), "-U", "postgres", f"--pwfile={secret}"]
        command += ["--auth=scram-sha-256", "--no-locale", "--encoding=UTF8", "--data-checksums"]
        start = log.size()
        child = Child.start(Command([*self._named_user_prefix(), *command], {"LC_ALL": "C"}, self.account, log))
        try:
            ended = await child.ended_within(INITDB_S)
        finally:
            await child.stop((signal.SIGTERM, 1.0))
        if not ended or child.returncode != 0:
            shutil.rmtree(target, ignore_errors=True)
            raise Unavailable("initdb_failed", f"initdb of {self.path} failed: {_reason(log.since(start))}")

    def _named_user_prefix(self) -> list[str]:
        """Return a prefix that maps a user ID without a name to `nobody`: initdb needs a user name."""
        if self.account.name:
            return []
        unshare = shutil.which("unshare")
        return [unshare, "--user", "--map-user=65534", "--map-group=65534"] if unshare else []

    def check_major(self) -> None:
        """Raise Refused `postgres_other_version` if another major version has made it."""
        made_by = (self.path / "PG_VERSION").read_text(encoding="ascii").strip()
        if made_by != str(self.binaries.major):
            raise Refused(
                "postgres_other_version",
                f"{self.path} was made by Postgres {made_by}, this is {self.binaries.major}; set HONGBAO_PG_BIN to a "
                f"Postgres {made_by}, or move the data with pg_upgrade",
            )

    @property
    def pid_file(self) -> Path:
        """The file in which a running server writes its process ID and state."""
        return self.path / "postmaster.pid"

    async def _await_earlier_server(self) -> None:
        """Wait until no process of an earlier server works here, orphaned backends included.

        postmaster.pid is Postgres' own guard against two servers on one folder. It is removed only if it would mislead
        Postgres: no Postgres works here, and the kernel has given its process ID to another process.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LEAVE_S
        while workers := self._processes_in_folder():
            if loop.time() > deadline:
                pid = self._pid_in_file() or workers[0]
                raise Refused(
                    "postgres_already_running",
                    f"a Postgres (process {pid}) still works on {self.path}; stop it with: kill -INT {pid}",
                )
            await asyncio.sleep(TICK_S)
        noted = self._pid_in_file()
        if noted is not None and Path(f"/proc/{noted}").exists():
            self.pid_file.unlink(missing_ok=True)

    def _pid_in_file(self) -> int | None:
        try:
            return int(self.pid_file.read_text(encoding="utf-8").split("\n", 1)[0])
        except (OSError, ValueError):
            return None

    def _processes_in_folder(self) -> list[int]:
        """Return the processes whose working folder is this one: a postmaster and all its children.

        Only root can see that of other users' processes; those cannot write here.
        """
        home = self.path.resolve()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if (entry / "cwd").readlink() == home:
                        found.append(int(entry.name))
        return sorted(found)


def read_system_identifier(cluster: Path) -> str:
    """Return the number that initdb gave a cluster (or what it is a copy of): the first field of pg_control."""
    with (cluster / "global" / "pg_control").open("rb") as control:
        return str(int.from_bytes(control.read(8), sys.byteorder))


def _reason(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    if any("effective user ID" in line or "unshare" in line for line in lines):
        return "this user ID has no entry in /etc/passwd, which initdb needs; add one, or run as a user that has one"
    errors = [line for line in lines if "error" in line.lower() or "fatal" in line.lower()]
    return (errors or lines or ["its log is empty"])[-1]
