"""What the archive asks of the place where archives are, whichever kind it is."""

from contextlib import AbstractContextManager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from archive.known import Known
from archive.manifest import Manifest

if TYPE_CHECKING:
    from archive.bucket.files import ArchiveFiles
    from archive.bucket.remote import RemoteFolder

Where: TypeAlias = "Path | RemoteFolder"
"""The folder of one archive, or what stands for it: `where / "claim.parquet"` is a file's path for DuckDB."""


SPOILT: Final = ("archive_missing", "archive_corrupt", "archive_forged")
"""Codes that say that an archive is damaged. A store that is away, or denies access, proves no damage."""


class Opened(NamedTuple):
    """An archive whose manifest was checked."""

    manifest: Manifest
    where: Where


class Writing(NamedTuple):
    """A manifest that stands in a place: of which archive, with which digest (or its first digits), and where."""

    day: date
    xx: int
    digest: str
    where: str


class KeptIn(Protocol):
    """A place. Its methods are those of `archive.store`, which says what they promise and raise."""

    def name(self, *, xx: int, day: date) -> str:
        """Say to a person where the archive of a day and database is, or would be."""

    def archived(self) -> list[tuple[date, int]]:
        """Return (date, xx) of all archives there, in order, unverified."""

    def writings(self) -> list[Writing]:
        """Return all manifests there, in order, unverified: more than one of a day where nobody removed the others."""

    def opened(self, key: bytes, *, xx: int, day: date, digest: str | None, files: "ArchiveFiles | None") -> Opened:
        """Return an archive whose manifest is signed and, with a `digest`, that one."""

    def check_files(self, found: Opened) -> None:
        """Read all files, and compare them with the manifest."""

    def sizes(self, found: Opened) -> dict[str, int | None]:
        """Return the sizes of the files as they are now, None of one that is not there."""

    def staging(self, *, xx: int, day: date) -> AbstractContextManager[Path]:
        """Give an empty folder to write an archive to."""

    def check_place(self, manifest: Manifest, key: bytes, known: Known) -> None:
        """Refuse if another's archive stands where this one is to go."""

    def publish(self, new: Path, manifest: Manifest, key: bytes, known: Known, *, keep_old: bool) -> None:
        """Have the files of the folder `new` count; durable on return."""

    def discard_others(self, key: bytes, known: Known, *, xx: int, day: date, digest: str) -> None:
        """Remove what was published before the archive with this digest, as far as it is known."""

    def settle(self, key: bytes, known: Known, *, xx: int, day: date, digest: str) -> None:
        """Have of what is known only the archive with this digest stand, if it is whole."""

    def fetch(self, found: Opened, name: str, path: Path) -> None:
        """Copy a file to `path`; raises OSError."""

    @property
    def disk(self) -> Path:
        """A folder on the disk that an export fills."""
