"""Takes, receives and restores the backups of one server in a bucket, by way of a work folder of this machine.

The work folder holds a copy until it is put, and the log until its segments are: what a killed call left there is put
by the next one. Until then it is the only place: the server drops log once it is received here. A work folder that is
lost takes with it what was received and not put, and the log in the bucket has a hole, after which a copy is needed.
"""

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from backup.backups import Backups
from backup.bucket.manifest import Copy
from backup.bucket.shelf import Shelf
from backup.bucket.shipper import LogShipper
from backup.bucket.unput import begin_note, find_unput
from backup.folder import SEGMENT_BYTES, BackupFolder, Base, LogState
from backup.limits import SHIP_EVERY_S
from backup.logkeeper import LogKeeper, LogStatus, status_of
from backup.programs import IDENTIFIER, Source
from backup.retention import remove_copies
from errors import HongbaoError, Refused, Unavailable
from machine.account import server_account
from machine.file_lock import hold_lock
from machine.postgres.server import Postgres
from objectstore.bucket import Bucket
from runtime.postgres import connected

_RESTORING = "restoring-"
_HELD = "restore.lock"
_COPY_AND_TAR = 2


def _held(holder: str) -> Refused:
    return Refused("backup_runs", f"process {holder} restores from what it has fetched; wait for it")


class RemoteBackups:
    """The backups of one server in a bucket. `find` is called before each connection, as by `LogKeeper`."""

    def __init__(
        self, find: Callable[[], Source], server: str, root: Bucket, work: Path, say: Callable[[str], None]
    ) -> None:
        self._find = find
        self._say = say
        self._checked = False
        """Whether the place is known to be this cluster's."""
        self._server = server
        self._work = work.absolute()
        self.shelf = Shelf(root, server)
        self.folder = BackupFolder(self._work, server)

    async def take(self) -> Copy:
        """Copy the whole cluster while it serves, verify the copy, put it; durable only then.

        Copies that an earlier call took and did not put are put first, and what is left of one that it had put is
        removed. Raises as `Backups.take` and `objectstore`; Refused `backup_of_another` if the work folder has a copy
        of another cluster, which stays there.
        """
        source = self._find()
        identifier = await self._check(source)
        backups = Backups(source, self._work, room=_COPY_AND_TAR)
        backups.prepare()
        # Until the copy is put: a second call would write the tar anew that this one is putting.
        with hold_lock(self.folder.home / "put.lock", backups.taken):
            await asyncio.to_thread(remove_copies, self.folder, [])
            await self._put_copies(identifier)
            await backups.take()
            return (await self._put_copies(identifier))[-1]

    async def _put_copies(self, identifier: str) -> list[Copy]:
        return [await asyncio.to_thread(self._put_copy, base, identifier) for base in self.folder.bases()]

    def _put_copy(self, base: Base, identifier: str) -> Copy:
        self.folder.check_copy(base, identifier)
        try:
            copy = self.shelf.put_copy(base, self.folder.home)
        except Refused as refused:
            if refused.code != "object_exists":
                raise
            # Another machine has put a copy that had ended in the same second.
            base = self.folder.rename_free(base, self.shelf.names())
            copy = self.shelf.put_copy(base, self.folder.home)
        remove_copies(self.folder, [base])
        return copy

    async def receive(self, stop: asyncio.Event, *, anew: bool = False) -> None:
        """Receive the log as `LogKeeper.receive`, and put each segment when it is complete, until `stop`.

        While the bucket is away the log stays in the work folder, each new reason is said once, and it is put later.
        Raises as `LogKeeper.receive`; Refused `backup_of_another`.
        """
        with contextlib.suppress(Unavailable):
            await self._check(self._find())  # a server that is away is waited for, and nothing is put until then
        keeper = LogKeeper(self._find, self.folder, self._say)
        async with self._shipping(LogShipper(self.shelf, self.folder)):
            await keeper.receive(stop, anew=anew)

    @asynccontextmanager
    async def _shipping(self, shipper: LogShipper) -> AsyncIterator[None]:
        """Put the log for the block, and what there is at its end, the newest segment as far as it goes."""
        done = asyncio.Event()
        shipping = asyncio.ensure_future(self._ship_until(done, shipper))
        try:
            yield
        finally:
            # Not by a cancellation, which a thread that is putting a segment does not hear.
            done.set()
            await shipping

    async def _ship_until(self, done: asyncio.Event, shipper: LogShipper) -> None:
        said = ""
        while True:
            last = done.is_set()
            try:
                if not self._checked:
                    # Before anything is put: what waits counts from here on, also if nothing is ever taken.
                    await asyncio.to_thread(begin_note, self.folder)
                    await self._check(self._find())
                await asyncio.to_thread(shipper.ship, last=last)
            except Exception as error:  # noqa: BLE001 - whatever it is, the receiver goes on, and this puts it later
                why = error.detail if isinstance(error, HongbaoError) else f"{type(error).__name__}: {error}"
                if why != said:
                    self._say(f"the log is kept in {self.folder.wal} and not put just now: {why}")
                said = why
            else:
                said = ""
            if last:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SHIP_EVERY_S):
                    await done.wait()

    async def status(self) -> LogStatus:
        """Compare the log with the server's; raises Unavailable `database_unavailable`.

        What is received and not put is lost with this machine: too much of it, or for too long, is `behind`.
        """
        put, unput = await asyncio.to_thread(lambda: (self.shelf.newest(), find_unput(self.folder, self.shelf.log())))
        status = await status_of(self._find().dsn, max({put or "", *self.folder.segments()}) or None)
        if status.state is not LogState.KEPT or not unput.is_late(time.time()):
            return status
        return LogStatus(LogState.BEHIND, (status.behind_bytes or 0) + unput.segments * SEGMENT_BYTES)

    async def restore(self, into: Path, until: datetime | None) -> Postgres:
        """Fetch the copy for `until` and the log since, then restore as `Backups.restore`."""
        async with self.fetched(until) as backups:
            return await backups.restore(into, until)

    @asynccontextmanager
    async def fetched(self, until: datetime | None) -> AsyncIterator[Backups]:
        """Fetch the copy for `until` and the log since into the work folder for the block.

        Raises Refused as `Shelf.copy_for` and `Shelf.fetch`.
        """
        copy = await asyncio.to_thread(self.shelf.copy_for, until)
        self._work.mkdir(mode=0o711, parents=True, exist_ok=True)
        await asyncio.to_thread(self._clear)
        with (
            tempfile.TemporaryDirectory(prefix=_RESTORING, dir=self._work) as name,
            hold_lock(Path(name) / _HELD, _held),
        ):
            fetched = Backups(self._find(), Path(name))
            Path(name).chmod(0o711)
            await asyncio.to_thread(self.shelf.fetch, copy, fetched.folder)
            account = server_account()  # it runs the command that fetches segments during the replay
            for one in (fetched.folder.home, fetched.folder.wal, *fetched.folder.wal.iterdir()):
                account.chown(one)
            yield fetched

    def _clear(self) -> None:
        """Remove what a restore that was killed has fetched; one that runs holds its folder's lock."""
        for left in self._work.glob(f"{_RESTORING}*"):
            with contextlib.suppress(Refused, FileNotFoundError), hold_lock(left / _HELD, _held):
                shutil.rmtree(left)

    async def _check(self, source: Source) -> str:
        """Return the cluster's identifier; raises Refused `backup_of_another` if the place is another's."""
        async with connected(source.dsn) as connection:
            identifier = str(await connection.fetchval(IDENTIFIER))
        await asyncio.to_thread(self.shelf.check_cluster, identifier)
        self._checked = True
        return identifier
