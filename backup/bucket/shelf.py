"""What a bucket holds of one server: its base copies and its log. Everything blocks."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from backup.bucket import manifest, tar
from backup.bucket.manifest import Copy
from backup.choice import copy_for, keep_newest
from backup.disk import disk_error
from backup.folder import PARTIAL, SEGMENT_BYTES, BackupFolder, Base, first_gap
from backup.limits import MANIFEST_BYTES
from errors import Refused
from machine.postgres.cluster_folder import read_system_identifier
from objectstore.bucket import Bucket, Held

_LOG: Final = re.compile(r"wal/([0-9A-F]{24}|[0-9A-F]{8}\.history)(\.partial)?")
_MANIFEST: Final = re.compile(r"base/\d{8}T\d{6}Z[^/]*\.json")
_CLUSTER: Final = "cluster.json"


class PrunePlan(NamedTuple):
    """What goes: copies, objects of the log, and copies' files that a killed `prune` has left; their bytes.

    `kept` copies stay.
    """

    copies: list[Copy]
    segments: list[str]
    leftovers: list[str]
    bytes: int
    kept: int


class Shelf:
    """The backups of one server in a bucket. Errors are those of `objectstore` and what each method says."""

    def __init__(self, root: Bucket, server: str) -> None:
        self.place = root / server
        self.server = server

    def check_cluster(self, identifier: str) -> None:
        """Record the cluster as the owner of the place at its first use.

        Later raises Refused `backup_of_another` for any other.
        """
        content = json.dumps({"system_identifier": identifier}).encode()
        try:
            self.place.create(_CLUSTER, content)
        except Refused as refused:
            if refused.code != "object_exists":
                raise
            standing, _ = self.place.read(_CLUSTER, MANIFEST_BYTES)
            if standing != content:
                raise Refused(
                    "backup_of_another",
                    f"{self.place} has backups of another cluster than {identifier}: choose another place, or move "
                    "its objects aside",
                ) from None

    def copies(self) -> list[Copy]:
        """Return the complete copies, oldest first, as `BackupFolder.bases`; raises Refused `backup_unreadable`.

        What is not called as a copy is, is not ours.
        """
        names = [one.name for one in self.place.listed("base") if _MANIFEST.fullmatch(one.name)]
        return sorted((self._copy(name) for name in names), key=lambda one: (one.first_segment, one.name))

    def _copy(self, name: str) -> Copy:
        content, _ = self.place.read(name, MANIFEST_BYTES)
        return manifest.decode(content, f"{self.place}/{name}", name.removeprefix("base/").removesuffix(".json"))

    def copy_for(self, until: datetime | None) -> Copy:
        """Return the newest copy that had ended by `until` (None: of all); raises Refused `no_backup`."""
        return copy_for(self.copies(), until, self.place, self.server)

    def names(self) -> set[str]:
        """Return the names of the complete copies."""
        listed = (one.name for one in self.place.listed("base") if _MANIFEST.fullmatch(one.name))
        return {name.removeprefix("base/").removesuffix(".json") for name in listed}

    def log(self) -> list[Held]:
        """Return the objects of the log, in order of their names."""
        return sorted(one for one in self.place.listed("wal") if _LOG.fullmatch(one.name))

    def _whole_log(self) -> list[Held]:
        """Return the log without what holds nothing: a partial segment that is not of full size."""
        return [one for one in self.log() if not one.name.endswith(PARTIAL) or one.size == SEGMENT_BYTES]

    def gap_after(self, copy: Copy) -> str | None:
        """Return the first segment that is missing after a copy, or None; as `BackupFolder.gap_after`."""
        log = {_segment(one.name) for one in self._whole_log()}
        return first_gap({*log, *copy.wal}, copy.first_segment) if log else None

    def newest(self) -> str | None:
        """Return the newest segment, complete or partial."""
        return max((_segment(one.name) for one in self._whole_log() if "history" not in one.name), default=None)

    def put_copy(self, base: Base, work: Path) -> Copy:
        """Put a base copy: its tar, which is written to the folder `work` first, then the manifest; durable then.

        May be repeated after a kill. Raises Refused `object_exists` if another copy has its name.
        """
        packed = work / f"{base.path.name}.tar"
        try:
            copy = self._pack(base, packed)
            self.place.upload(copy.tar, packed)
        finally:
            packed.unlink(missing_ok=True)
        try:
            self.place.create(copy.json, copy.encode())
        except Refused as refused:
            if refused.code != "object_exists":
                raise
            if self.place.read(copy.json, MANIFEST_BYTES)[0] != copy.encode():
                raise
        return copy

    @staticmethod
    def _pack(base: Base, packed: Path) -> Copy:
        """Write the tar; raises Refused `disk_full`, `backup_folder_unwritable`."""
        try:
            sha256 = tar.pack(base.path, packed)
            wal = sorted(path.name for path in (base.path / "pg_wal").iterdir() if path.is_file())
            return Copy(
                name=base.path.name,
                system_identifier=read_system_identifier(base.path),
                first_segment=base.first_segment,
                wal=wal,
                size=packed.stat().st_size,
                sha256=sha256,
            )
        except OSError as error:
            raise disk_error(packed, error) or Refused(
                "backup_folder_unwritable", f"{packed} was not written ({error.strerror})"
            ) from error

    def put_segment(self, path: Path) -> None:
        """Put a complete segment, or a history file; one that is there already must have the same content.

        Raises Refused `backup_of_another` if it has another.
        """
        name, content = f"wal/{path.name}", path.read_bytes()
        try:
            self.place.create(name, content)
        except Refused as refused:
            if refused.code != "object_exists":
                raise
            if self.place.read(name, SEGMENT_BYTES)[0] != content:
                raise Refused(
                    "backup_of_another",
                    f"{self.place}/{name} differs from this server's: the server was restored to before it, or the "
                    "object was spoilt; choose another place",
                ) from None
        self.place.delete([f"{name}{PARTIAL}"])

    def put_partial(self, name: str, content: bytes, etag: str = "") -> str | None:
        """Put what there is of the segment that is being written, over what there was of it; returns its ETag.

        `etag`: that of the object that this process put last. Another's is read first: if it goes further, or the whole
        segment is there, because another host has received more, that stays, and the answer is None.
        """
        name = f"wal/{name}"
        if etag:
            with _refused_with("object_changed", "object_missing"):
                return self.place.replace(name, content, etag)
        with _refused_with("object_missing"):
            self.place.size(name.removesuffix(PARTIAL))
            return None
        with _refused_with("object_exists"):
            return self.place.create(name, content)
        standing, etag = self.place.read(name, SEGMENT_BYTES)
        if len(standing) == SEGMENT_BYTES and _reach(standing) > _reach(content):
            return None
        return self.place.replace(name, content, etag)

    def fetch(self, copy: Copy, folder: BackupFolder) -> None:
        """Bring a copy and the log since into an empty folder.

        Raises Refused `backup_unreadable`, `backup_of_another`.
        """
        for one in (folder.base, folder.wal):
            one.mkdir(mode=0o700, parents=True)
        name = copy.tar
        target = folder.base / f"{copy.name}.new"
        tar.unpack(self.place.stream(name), target, copy.sha256, f"{self.place}/{name}")
        if (found := read_system_identifier(target)) != copy.system_identifier:
            raise Refused(
                "backup_of_another",
                f"{self.place}/{name} is of the cluster {found}, its manifest says {copy.system_identifier}",
            )
        target.rename(folder.base / copy.name)
        for held in self._whole_log():
            if "history" in held.name or _segment(held.name) >= copy.first_segment:
                self._fetch_segment(held.name, folder.wal / held.name.removeprefix("wal/"))

    def _fetch_segment(self, name: str, path: Path) -> None:
        try:
            with path.open("wb") as file:
                for chunk in self.place.stream(name):
                    file.write(chunk)
        except OSError as error:
            if (refused := disk_error(path, error)) is not None:
                raise refused from error
            raise

    def plan_prune(self, keep: int) -> PrunePlan:
        """Return what keeping the newest `keep` copies makes needless; changes nothing."""
        copies = self.copies()
        gone, kept, needed_from = keep_newest(copies, keep)
        if not kept:
            return PrunePlan([], [], [], 0, 0)
        log = [one for one in self.log() if "history" not in one.name and _segment(one.name) < needed_from]
        known = {one.tar for one in copies}
        oldest = min(one.tar for one in kept)
        # A newer one may be on its way up: its manifest is put last.
        left = [
            one
            for one in self.place.listed("base")
            if one.name.endswith(".tar") and one.name not in known and one.name < oldest
        ]
        size = sum(one.size for one in gone) + sum(one.size for one in (*log, *left))
        return PrunePlan(gone, [one.name for one in log], [one.name for one in left], size, len(kept))

    def prune(self, plan: PrunePlan) -> None:
        """Remove it, manifests first: a copy that is half removed must not look like one."""
        self.place.delete([one.json for one in plan.copies])
        self.place.delete([*(one.tar for one in plan.copies), *plan.leftovers])
        self.place.delete(plan.segments)


def _reach(partial: bytes) -> int:
    """Return how far a partial segment is written: the receiver has filled it up with zeros before."""
    return len(partial.rstrip(b"\0"))


@contextmanager
def _refused_with(*codes: str) -> Iterator[None]:
    """Go on behind the block if it was refused with one of these codes."""
    try:
        yield
    except Refused as refused:
        if refused.code not in codes:
            raise


def _segment(name: str) -> str:
    return name.removeprefix("wal/").removesuffix(PARTIAL)
