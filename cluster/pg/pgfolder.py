"""The folder of one Postgres cluster: made once by initdb, checked before each start.

Each SET gets an initdb of its own rather than a copy of one: it costs 0.8 s once, in parallel, and the clusters
get different system identifiers, without which Postgres could not tell the log of one SET from another's.
"""

import asyncio
import contextlib
import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

from cluster.machine.account import Account
from cluster.machine.binaries import Binaries
from cluster.supervision.child import Child, Command
from cluster.supervision.logfile import LogFile
from envelope.errors import Refused, Unavailable

INITDB_S = 120.0
"""It takes a second; a slow disk syncs a thousand small files."""
LEAVE_S = 5.0
"""A server whose parent was killed is told so by the kernel and leaves in far less."""
TICK_S = 0.02


@dataclass(frozen=True)
class PgFolder:
    """The data of one cluster at `path`, whose parent folder is ours alone."""

    path: Path
    binaries: Binaries
    account: Account

    async def ensure(self, password: str, log: LogFile) -> None:
        """Make the cluster, with `password` for the superuser `postgres`, unless it is there. Safe to be killed in."""
        if (self.path / "PG_VERSION").exists():
            self._check_major()
            await self._settle()
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.account.own(self.path.parent)
        aside = self.path.with_name(self.path.name + ".new")
        shutil.rmtree(aside, ignore_errors=True)
        secret = self.path.with_name(self.path.name + ".password")
        secret.unlink(missing_ok=True)
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:  # noqa: ASYNC230, PTH123 - a few bytes, with a mode
            file.write(password)
        try:
            self.account.own(secret)
            await self._initdb(aside, secret, log)
        finally:
            secret.unlink(missing_ok=True)
        aside.rename(self.path)

    async def _initdb(self, target: Path, secret: Path, log: LogFile) -> None:
        words = [self.binaries.program("initdb"), "-D", str(target), "-U", "postgres", f"--pwfile={secret}"]
        words += ["--auth=scram-sha-256", "--no-locale", "--encoding=UTF8", "--data-checksums"]
        start = log.size()
        child = Child.start(Command([*self._with_a_name(), *words], {"LC_ALL": "C"}, self.account, log))
        try:
            ended = await child.ended_within(INITDB_S)
        finally:
            await child.stop((signal.SIGTERM, 1.0))
        if not ended or child.returncode != 0:
            shutil.rmtree(target, ignore_errors=True)
            raise Unavailable("initdb_failed", f"initdb of {self.path} failed: {_reason(log.since(start))}")

    def _with_a_name(self) -> list[str]:
        """Initdb wants a name for the user it runs as; a user ID without one borrows that of nobody."""
        if self.account.name:
            return []
        unshare = shutil.which("unshare")
        return [unshare, "--user", "--map-user=65534", "--map-group=65534"] if unshare else []

    def _check_major(self) -> None:
        made_by = (self.path / "PG_VERSION").read_text(encoding="ascii").strip()
        if made_by != str(self.binaries.major):
            raise Refused(
                "postgres_other_version",
                f"{self.path} was made by Postgres {made_by}, this is {self.binaries.major}; set HONGBAO_PG_BIN to a "
                f"Postgres {made_by}, or move the data with pg_upgrade",
            )

    @property
    def pid_file(self) -> Path:
        """Where a running server says that it is there."""
        return self.path / "postmaster.pid"

    async def _settle(self) -> None:
        """Wait until no process of an earlier server works here, its orphaned backends included.

        postmaster.pid is how Postgres itself guards against two servers on one folder, so it is removed only where
        Postgres would be misled: when its number has come round to a process that is no Postgres of this folder.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LEAVE_S
        while at_work := self._at_work():
            if loop.time() > deadline:
                pid = self._noted_pid() or at_work[0]
                raise Refused(
                    "postgres_already_running",
                    f"a Postgres (process {pid}) still works on {self.path}; stop it with: kill -INT {pid}",
                )
            await asyncio.sleep(TICK_S)
        noted = self._noted_pid()
        if noted is not None and Path(f"/proc/{noted}").exists():
            self.pid_file.unlink(missing_ok=True)

    def _noted_pid(self) -> int | None:
        try:
            return int(self.pid_file.read_text(encoding="utf-8").split("\n", 1)[0])
        except (OSError, ValueError):
            return None

    def _at_work(self) -> list[int]:
        """Return the processes that stand in this folder, as a postmaster and all its children do.

        A process of another user cannot be looked at unless we are root, but neither could it write here.
        """
        home = self.path.resolve()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if (entry / "cwd").readlink() == home:
                        found.append(int(entry.name))
        return sorted(found)


def _reason(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    if any("effective user ID" in line or "unshare" in line for line in lines):
        return "this user ID has no entry in /etc/passwd, which initdb wants; add one, or run as a user that has"
    told = [line for line in lines if "error" in line.lower() or "fatal" in line.lower()]
    return (told or lines or ["it said nothing"])[-1]
