"""Archives in an object store (`publication`), for `archive.store`."""

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from archive.bucket import layout, publication, remote
from archive.bucket.files import ArchiveFiles
from archive.kept_in import SPOILT, Opened, Writing
from archive.known import Known
from archive.manifest import Manifest
from archive.place import not_written
from errors import Refused
from objectstore.bucket import Bucket


@dataclass(frozen=True)
class InBucket:
    """As `archive.kept_in.KeptIn`. An archive is first written to a folder under TMPDIR; blocks are checked as read."""

    bucket: Bucket

    def name(self, *, xx: int, day: date) -> str:
        """Return where the manifests of one archive are."""
        return f"{self.bucket}/{layout.manifests_of(xx, day)}"

    def archived(self) -> list[tuple[date, int]]:
        """List the manifests."""
        return sorted({(one.day, one.xx) for one in publication.generations(self.bucket)})

    def writings(self) -> list[Writing]:
        """List the manifests, by their names."""
        return [
            Writing(*one, f"{self.bucket}/{layout.manifest_name(one.xx, one.day, one.digest)}")
            for one in publication.generations(self.bucket)
        ]

    def opened(self, key: bytes, *, xx: int, day: date, digest: str | None, files: ArchiveFiles | None) -> Opened:
        """Read the manifest; without a digest, that which was put last."""
        signed = publication.find(self.bucket, key, xx=xx, day=day, digest=digest)
        return Opened(signed.manifest, remote.open_files(self.bucket, signed, files))

    def check_files(self, found: Opened) -> None:
        """Hash all files, read whole."""
        publication.check_files(self.bucket, found.manifest)

    def sizes(self, found: Opened) -> dict[str, int | None]:
        """Ask the store."""
        return publication.sizes(self.bucket, found.manifest)

    @contextlib.contextmanager
    def staging(self, *, xx: int, day: date) -> Iterator[Path]:
        """Give a folder under TMPDIR, which is removed at the end."""
        try:
            spool = tempfile.TemporaryDirectory(prefix="hongbao-archive-")
        except OSError as error:
            raise not_written(self.name(xx=xx, day=day), error) from error
        with spool as name:
            yield Path(name)

    def check_place(self, manifest: Manifest, key: bytes, known: Known) -> None:
        """Look whether somebody else has put the same archive, under another key; others have other names."""
        del known
        publication.check_place(self.bucket, manifest, key)

    def publish(self, new: Path, manifest: Manifest, key: bytes, known: Known, *, keep_old: bool) -> None:
        """Put the files, then the manifest."""
        del keep_old  # older ones always stay until `discard_others`
        self.check_place(manifest, key, known)
        publication.publish(self.bucket, new, manifest, key)

    def discard_others(self, key: bytes, known: Known, *, xx: int, day: date, digest: str) -> None:
        """Delete the objects of all others of the day and database that are known."""
        del key  # an object is named by its digest
        publication.discard_others(self.bucket, known, xx=xx, day=day, digest=digest)

    def settle(self, key: bytes, known: Known, *, xx: int, day: date, digest: str) -> None:
        """Discard the others if there are any, and this one is whole."""
        if not publication.has_others(self.bucket, known, xx=xx, day=day, digest=digest):
            return
        try:
            self.check_files(self.opened(key, xx=xx, day=day, digest=digest, files=None))
        except Refused as refused:
            if refused.code not in SPOILT:
                raise
            return  # what else is there may be all that is left: nothing is removed
        self.discard_others(key, known, xx=xx, day=day, digest=digest)

    def fetch(self, found: Opened, name: str, path: Path) -> None:
        """Read it in parts; unchecked."""
        publication.fetch(self.bucket, found.manifest, name, path)

    @property
    def disk(self) -> Path:
        """Return the folder under which archives are on their way up."""
        return Path(tempfile.gettempdir())
