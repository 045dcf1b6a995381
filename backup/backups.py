"""Takes base copies of one Postgres, and restores them to an instant. The log since is kept by `backup.logkeeper`."""

import asyncio
import contextlib
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from backup.disk import disk_error
from backup.folder import SEGMENT_BYTES, BackupFolder, Base, lsn_position, segment_start
from backup.limits import COPY_S, CUT_BYTES, FREE_SHARE
from backup.programs import IDENTIFIER, PgPrograms, Source
from backup.retention import READERS
from errors import Refused, Unavailable
from machine.account import Account
from machine.file_lock import hold_lock
from machine.postgres.server import Postgres, PostgresSpec
from runtime.postgres import connected, loss_told

_LEFT = {"restore.lock", "restore.log"}
"""Files that a restore that failed leaves behind; its log says why."""

_FETCH = (
    'for kept in {folders}; do test -d "$kept" && test -r "$kept" && test -x "$kept" || '
    '{{ echo "hongbao: cannot read $kept" >&2; exit 126; }}; done; '
    'for name in "%f" "%f.partial"; do for kept in {folders}; do '
    'if test -e "$kept/$name" && {{ test "$name" = "%f" || test "$(wc -c <"$kept/$name")" -eq {whole}; }}; '
    'then cp "$kept/$name" "%p" || exit 126; exit 0; fi; done; done; exit 1'
)
"""Exit status 1: there is no such segment, and Postgres ends the replay there. Above 125 it stops with an error. A
partial segment that is not of full size holds nothing (`backup.folder.is_empty`)."""


_LOOPBACK = ("host all all 127.0.0.1/32 scram-sha-256", "host replication all 127.0.0.1/32 scram-sha-256")
_NOT_HERE = (
    *("synchronous_standby_names", "primary_conninfo", "primary_slot_name", "recovery_end_command"),
    *("archive_cleanup_command", "recovery_target", "recovery_target_lsn", "recovery_target_name"),
    *("recovery_target_xid", "recovery_target_time"),
)
"""Settings that a restored copy has not, whatever its source had."""


class Backups:
    """The backups of one server in one folder. `room`: of how many copies at once, as where each is packed as well."""

    def __init__(self, source: Source, root: Path, *, room: int = 1) -> None:
        self.source = source
        self._room = room
        self.folder = BackupFolder(root.absolute(), source.name)
        self._programs = PgPrograms(self.folder)

    def prepare(self) -> None:
        """Make the folders; raises as `PgPrograms.prepare`."""
        self._programs.prepare()

    async def take(self) -> Base:
        """Copy the whole cluster while it serves, verify the copy, and make it count; durable only then.

        What a killed call has copied is removed by the next one. Raises Refused `backup_runs` if another process takes
        a copy, `backup_of_another`, `disk_full`; Unavailable `backup_failed`.
        """
        self.prepare()
        with hold_lock(self.folder.home / "take.lock", self.taken):
            # This process holds the lock, so such a folder was left by one that was killed.
            for left in self.folder.base.glob("*.new"):
                await asyncio.to_thread(shutil.rmtree, left)
            await self._check_server()
            unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", suffix=".new", dir=self.folder.base))
            self._programs.account.chown(unfinished)
            words = ["-D", str(unfinished), "--wal-method=stream", "--checkpoint=fast", "--manifest-checksums=SHA256"]
            await self._programs.run("pg_basebackup", words, COPY_S, self.source)
            await self._programs.run("pg_verifybackup", [str(unfinished)], COPY_S)
            return self.folder.seal(unfinished, datetime.now(UTC))

    async def restore(self, into: Path, until: datetime | None) -> Postgres:
        """Make a cluster as it was at `until` (None: at the end of the log) under `into`; returns it, running.

        The server is not touched, and the copy follows no subscription (`_recovery`). Raises Refused `no_backup`,
        `log_has_a_hole`, `log_ends_before`, `log_unreadable`, `folder_taken`, `folder_unreachable`,
        `folder_unwritable`; a restore that fails leaves nothing under `into` but `restore.log`.
        """
        self.folder.refuse_links()
        self.folder.base_for(until)
        with self._being_read(), _locked(into.absolute(), self._programs.account) as home:
            base = self.folder.base_for(until)
            # With an instant, the replay finds out: a hole after that instant is no reason to refuse.
            if until is None and (hole := self.folder.gap_after(base)) is not None:
                raise self._hole(hole)
            target = home / "postgres" / self.source.name
            spec = PostgresSpec(
                f"restored-{self.source.name}", target, home / "restore.log", self.source.passwords,
                settings=self._recovery(until), start_s=COPY_S, is_copy=True,
            )  # fmt: skip
            server = Postgres(spec, account=self._programs.account)
            try:
                await self._copied(base, target)
                await self._replay(server, base, until)
            except BaseException:
                await asyncio.shield(server.stop("immediate"))
                await asyncio.to_thread(shutil.rmtree, home / "postgres", ignore_errors=True)
                raise
            return server

    @contextlib.contextmanager
    def _being_read(self) -> Iterator[None]:
        """Keep `prune` away for the block. A folder that cannot be written to, a copy on tape, is not pruned either."""
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):
                stack.enter_context(hold_lock(self.folder.home / READERS, self._pruned, shared=True))
            yield

    def _pruned(self, holder: str) -> Refused:
        return Refused("backup_runs", f"process {holder} removes old copies from {self.folder.home}; wait for it")

    async def _replay(self, server: Postgres, base: Base, until: datetime | None) -> None:
        start = server.log.size()
        try:
            await server.start()
        except Unavailable as error:
            output = server.log.since(start)
            if "could not restore file" in output or "has wrong size" in output:
                raise self._unreadable(str(server.log.path)) from error
            if "before configured recovery target" in output:
                if (hole := self.folder.gap_after(base)) is not None:
                    raise self._hole(hole) from error
                raise Refused("log_ends_before", f"the log kept in {self.folder.wal} ends before {until}") from error
            raise
        newest = self.folder.newest()
        if until is None and newest is not None and segment_start(newest) - _replayed(server.spec.folder) > CUT_BYTES:
            raise self._unreadable(f"replay ended long before {newest}; its log: {server.log.path}")

    def _recovery(self, until: datetime | None) -> dict[str, str]:
        folders = " ".join(shlex.quote(str(one)) for one in self.folder.logs()).replace("%", "%%")
        settings = {
            "restore_command": _FETCH.format(folders=folders, whole=SEGMENT_BYTES),
            # The server accepts connections once the instant is reached, not already during the replay.
            "hot_standby": "off",
            # A copy made during a live move has the move's subscription. It would use the slot at the source and
            # make the source drop log that the real target has not received.
            "max_logical_replication_workers": "0",
            # What the source's operators may have set by ALTER SYSTEM, and this server has none of: a standby that
            # confirms commits, an archive of its log, another point to which to recover.
            **dict.fromkeys(_NOT_HERE, ""),
            "archive_mode": "off",
            "recovery_target_timeline": "latest",
        }
        if until is not None:
            settings |= {"recovery_target_time": until.isoformat(sep=" "), "recovery_target_action": "promote"}
        return settings

    async def _copied(self, base: Base, target: Path) -> None:
        try:
            await asyncio.to_thread(self._copy, base, target)
        except OSError as error:
            if (refused := disk_error(target, error)) is not None:
                raise refused from error
            raise

    def _copy(self, base: Base, target: Path) -> None:
        account = self._programs.account
        target.parent.mkdir()
        target.parent.chmod(0o711 if account.drop_privileges else 0o700)
        account.chown(target.parent)
        aside = target.with_name(f"{target.name}.new")
        shutil.copytree(base.path, aside, symlinks=True)
        _let_this_machine_in(aside / "pg_hba.conf")
        (aside / "recovery.signal").touch()
        for path in (aside, *aside.rglob("*")):
            account.chown(path)
        aside.rename(target)

    async def _check_server(self) -> None:
        """Raise Refused unless the copies here are this server's, and there is room for another."""
        query = "SELECT sum(pg_database_size(oid))::bigint FROM pg_database"
        with loss_told("while it was looked at; run it again"):
            await self._compare_server(query)

    async def _compare_server(self, query: str) -> None:
        async with connected(self.source.dsn) as connection:
            self.folder.check_cluster(str(await connection.fetchval(IDENTIFIER)))
            self._programs.check_release(connection.get_server_version().major)
            needed = self._room * FREE_SHARE * await connection.fetchval(query)
        free = shutil.disk_usage(self.folder.root).free
        if free < needed:
            raise Refused(
                "disk_full",
                f"{free // 1024**2} MB are free at {self.folder.root}; {int(needed) // 1024**2} MB are needed",
            )

    def _hole(self, lacking: str) -> Refused:
        text = f"{self.folder.home} lacks {lacking}: restore to an instant before it, or from a newer base copy"
        return Refused("log_has_a_hole", text)

    def _unreadable(self, why: str) -> Refused:
        return Refused("log_unreadable", f"the log in {self.folder.wal} exists and cannot be read: {why}")

    def taken(self, holder: str) -> Refused:
        """Return the error for a folder in which another process is taking a copy."""
        return Refused("backup_runs", f"process {holder} is taking a base copy into {self.folder.root}; wait for it")


@contextlib.contextmanager
def _locked(into: Path, account: Account) -> Iterator[Path]:
    """Make the folder, or use an empty one, and lock it against another restore for the block."""
    if not into.exists():
        try:
            into.mkdir(parents=True)
        except OSError as error:
            raise Refused("folder_unwritable", f"cannot make {into} ({error.strerror}); choose another") from error
        into.chmod(0o711 if account.drop_privileges else 0o700)
    _check_empty(into)
    if not account.can_access("-x", into):
        text = f"Postgres runs as {account.name}, who cannot enter {into}; choose another folder"
        raise Refused("folder_unreachable", text)
    with hold_lock(
        into / "restore.lock", lambda holder: Refused("folder_taken", f"process {holder} restores into {into} already")
    ):
        # Again behind the lock: another restore may have used the folder meanwhile.
        _check_empty(into)
        yield into


def _check_empty(into: Path) -> None:
    if not into.is_dir() or {one.name for one in into.iterdir()} - _LEFT:
        raise Refused("folder_taken", f"{into} is there already and not empty; choose another folder")


def _let_this_machine_in(pg_hba: Path) -> None:
    """The copy is started on 127.0.0.1 and audited; a server of other hosts may let nobody in from there."""
    # Debian keeps the file in /etc, and a base copy has none.
    lines = pg_hba.read_text(encoding="utf-8").splitlines() if pg_hba.exists() else []
    known = {" ".join(line.split()) for line in lines}
    added = [line for line in _LOOPBACK if line not in known]
    if added:
        text = "\n".join([*lines, "# Added by `hongbao backup restore`, which audits the copy here:", *added, ""])
        pg_hba.write_text(text, encoding="utf-8")


def _replayed(cluster: Path) -> int:
    """Return the position at which the replay ended: there the newest timeline of an opened cluster begins."""
    history = max((cluster / "pg_wal").glob("*.history")).read_text(encoding="ascii")
    return lsn_position(history.strip().splitlines()[-1].split()[1])
