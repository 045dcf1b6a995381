"""One archive in an object store, opened: its checked manifest, and its files as DuckDB reads them."""

from dataclasses import dataclass

from archive.bucket import layout
from archive.bucket.files import ROOT, ArchiveFiles, Known
from archive.bucket.signed import Signed
from objectstore.bucket import Bucket
from sharding.slots import database_name


@dataclass(frozen=True)
class RemoteFile:
    """A file of an archive. Its text is the path under which DuckDB finds it in `files`."""

    files: ArchiveFiles
    path: str

    def __str__(self) -> str:
        """Return the path."""
        return self.path

    @property
    def name(self) -> str:
        """Return its name in the manifest."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class RemoteFolder:
    """An archive's files, in the place of the folder that it would be. Its text says to a person where they are."""

    bucket: Bucket
    files: ArchiveFiles
    path: str

    def __str__(self) -> str:
        """Return the place."""
        return f"{self.bucket}/{self.path.removeprefix(ROOT)}"

    def __truediv__(self, name: str) -> RemoteFile:
        """Return the file `name`, `claim.parquet`."""
        return RemoteFile(self.files, f"{self.path}/{name}")

    def close(self) -> None:
        """Take the files out of the file system."""
        self.files.forget(f"{self.path}/")


def open_files(bucket: Bucket, signed: Signed, files: ArchiveFiles | None = None) -> RemoteFolder:
    """Return an archive's files, in `files` if they are given; nothing is contacted.

    Each block of them is checked when it is read.
    """
    found = signed.manifest
    files = ArchiveFiles(bucket) if files is None else files
    # The digest is in the path: an archive written anew has other paths, and no block of the old one is its.
    path = f"{ROOT}{found.digest[: layout.GENERATION]}/{found.day.isoformat()}/{database_name(found.xx)}"
    for name, file in found.files.items():
        stored = layout.file_name(name, found.xx, found.day, found.digest)
        files.add(f"{path}/{name}", Known(stored, file.size, signed.blocks.size, signed.blocks.of(name)))
    return RemoteFolder(bucket, files, path)
