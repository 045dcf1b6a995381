"""Backups of one Postgres of the stack: base copies, and a restore to any instant since.

Postgres' own programs do the work; what lies where is `upkeep.backup`, the log is kept by `cluster.pg.logkeeper`.
"""

import asyncio
import contextlib
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from cluster.machine.account import Account
from cluster.machine.exclusive import held
from cluster.pg.pgprograms import PgPrograms, Source
from cluster.pg.postgres import Postgres, PostgresSpec
from envelope.errors import Refused, Unavailable
from runtime import postgres
from upkeep.backup import BackupFolder, Base, beginning, position

COPY_S = 24 * 3600.0
"""A base copy of a terabyte at 20 MB/s; whoever waits less long presses Ctrl-C."""
FREE_SHARE = 1.2
"""Room that a base copy needs, against what the cluster has now."""
CUT_BYTES = 8 * 1024**2
"""The newest segment kept may hold only the end of a record that began before it: replay stops in front of that one.

Most records are smaller than a page; those of DDL over a thousand leaves reach some 100 KB.
"""
_OURS = {"restore.lock", "restore.log"}
"""What a restore that failed leaves: why it did."""

_FETCH = (
    'for kept in {folders}; do test -d "$kept" && test -r "$kept" && test -x "$kept" || '
    '{{ echo "hongbao: cannot read $kept" >&2; exit 126; }}; done; '
    'for name in "%f" "%f.partial"; do for kept in {folders}; do '
    'if test -e "$kept/$name"; then cp "$kept/$name" "%p" || exit 126; exit 0; fi; done; done; exit 1'
)
"""Postgres takes 1 for the end of the log and opens there; above 125 it stops. So 1 says: not there."""


class Backups:
    """The backups of one server in one folder."""

    def __init__(self, source: Source, root: Path) -> None:
        self.source = source
        self.folder = BackupFolder(root.absolute(), source.name)
        self._programs = PgPrograms(self.folder)

    async def take(self) -> Base:
        """Copy the whole cluster while it serves, verify the copy, and let it count. Safe to be killed in.

        Raises Refused `backup_runs` while another process takes one, `disk_full`; Unavailable `backup_failed`.
        """
        self._programs.prepare()
        with held(self.folder.home / "take.lock", self._taken):
            # Nobody else is at work: what has such a name was left by one who was killed.
            for left in self.folder.base.glob("*.new"):
                await asyncio.to_thread(shutil.rmtree, left)
            await self._check_space()
            unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", suffix=".new", dir=self.folder.base))
            self._programs.account.own(unfinished)
            words = ["-D", str(unfinished), "--wal-method=stream", "--checkpoint=fast", "--manifest-checksums=SHA256"]
            await self._programs.run("pg_basebackup", words, COPY_S, self.source)
            await self._programs.run("pg_verifybackup", [str(unfinished)], COPY_S)
            return self.folder.seal(unfinished, datetime.now(UTC))

    async def restore(self, into: Path, until: datetime | None) -> Postgres:
        """Make a cluster as it was at `until` (None: at the end of the log) under `into`; returns it, running.

        The running one is not touched, and the copy follows nobody: see `_recovery`. Raises Refused `no_backup`,
        `log_has_a_hole`, `log_ends_before`, `log_unreadable`, `folder_taken`, `folder_unreachable`,
        `folder_unwritable`; of one that failed nothing stays under `into` but its log, `restore.log`.
        """
        base = self.folder.base_for(until)
        # To an instant the replay itself tells: a hole behind it is no reason to refuse, and only the log knows.
        if until is None and (hole := self.folder.gap_after(base)) is not None:
            raise self._hole(hole)
        with _own(into.absolute(), self._programs.account) as home:
            target = home / "postgres" / self.source.name
            spec = PostgresSpec(
                f"restored-{self.source.name}", target, home / "restore.log", self.source.passwords,
                settings=self._recovery(until), start_s=COPY_S,
            )  # fmt: skip
            server = Postgres(spec, account=self._programs.account)
            try:
                await asyncio.to_thread(self._copy, base, target)
                await self._replay(server, base, until)
            except BaseException:
                await asyncio.shield(server.stop("immediate"))
                await asyncio.to_thread(shutil.rmtree, home / "postgres", ignore_errors=True)
                raise
            return server

    async def _replay(self, server: Postgres, base: Base, until: datetime | None) -> None:
        start = server.log.size()
        try:
            await server.start()
        except Unavailable as error:
            said = server.log.since(start)
            if "could not restore file" in said or "has wrong size" in said:
                raise self._unreadable(str(server.log.path)) from error
            if "before configured recovery target" in said:
                if (hole := self.folder.gap_after(base)) is not None:
                    raise self._hole(hole) from error
                raise Refused("log_ends_before", f"the log kept in {self.folder.wal} ends before {until}") from error
            raise
        newest = self.folder.newest()
        if until is None and newest is not None and beginning(newest) - _replayed(server.spec.folder) > CUT_BYTES:
            raise self._unreadable(f"replay ended long before {newest}; its log: {server.log.path}")

    def _recovery(self, until: datetime | None) -> dict[str, str]:
        folders = " ".join(shlex.quote(str(one)) for one in self.folder.logs()).replace("%", "%%")
        settings = {
            "restore_command": _FETCH.format(folders=folders),
            # Ready means then that the instant is reached, not that one may watch.
            "hot_standby": "off",
            # A copy made in the middle of a live move has its subscription, too: it would take the real one's place
            # at the source and make the source forget what the real one has not got.
            "max_logical_replication_workers": "0",
        }
        if until is not None:
            settings |= {"recovery_target_time": until.isoformat(sep=" "), "recovery_target_action": "promote"}
        return settings

    def _copy(self, base: Base, target: Path) -> None:
        account = self._programs.account
        target.parent.mkdir()
        target.parent.chmod(0o711 if account.drop else 0o700)
        account.own(target.parent)
        aside = target.with_name(f"{target.name}.new")
        shutil.copytree(base.path, aside, symlinks=True)
        (aside / "recovery.signal").touch()
        for path in (aside, *aside.rglob("*")):
            account.own(path)
        aside.rename(target)

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

    def _hole(self, lacking: str) -> Refused:
        text = f"{self.folder.home} lacks {lacking}: behind it only a newer base copy helps; an instant before may do"
        return Refused("log_has_a_hole", text)

    def _unreadable(self, why: str) -> Refused:
        return Refused("log_unreadable", f"the log kept in {self.folder.wal} is there and cannot be read: {why}")

    def _taken(self, holder: str) -> Refused:
        return Refused("backup_runs", f"process {holder} is taking a base copy into {self.folder.root}; wait for it")


@contextlib.contextmanager
def _own(into: Path, account: Account) -> Iterator[Path]:
    """Make the folder, or take an empty one as it is, and hold it against another restore."""
    if not into.exists():
        try:
            into.mkdir(parents=True)
        except OSError as error:
            raise Refused("folder_unwritable", f"cannot make {into} ({error.strerror}); choose another") from error
        into.chmod(0o711 if account.drop else 0o700)
    _check_empty(into)
    if not account.may("-x", into):
        text = f"Postgres runs as {account.name}, who cannot enter {into}; choose another folder"
        raise Refused("folder_unreachable", text)
    with held(
        into / "restore.lock", lambda holder: Refused("folder_taken", f"process {holder} restores into {into} already")
    ):
        # Once more: another restore may have come and gone since.
        _check_empty(into)
        yield into


def _check_empty(into: Path) -> None:
    if not into.is_dir() or {one.name for one in into.iterdir()} - _OURS:
        raise Refused("folder_taken", f"{into} is there already and not empty; choose another folder")


def _replayed(cluster: Path) -> int:
    """Return the byte in the log where the replay ended: there the newest timeline of an opened cluster begins."""
    history = max((cluster / "pg_wal").glob("*.history")).read_text(encoding="ascii")
    return position(history.strip().splitlines()[-1].split()[1])
