"""Archives in a folder (`place`), for `store`."""

import shutil
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from archive import place, settling, standing
from archive.kept_in import Opened, Writing
from archive.known import Known
from archive.manifest import Manifest, read, sign, unproven
from errors import Refused

if TYPE_CHECKING:
    from archive.bucket.files import ArchiveFiles


@dataclass(frozen=True)
class InFolder:
    """As `kept_in.KeptIn`. Files are checked whole before they are used."""

    root: Path

    def name(self, *, xx: int, day: date) -> str:
        """Return the folder of one archive, as text."""
        return str(place.folder_of(self.root, xx=xx, day=day))

    def archived(self) -> list[tuple[date, int]]:
        """Look for manifests."""
        return place.archived(self.root)

    def writings(self) -> list[Writing]:
        """Look at each manifest; one that cannot be read has no digest."""
        found = []
        for day, xx in self.archived():
            where = place.folder_of(self.root, xx=xx, day=day)
            said = unproven(where)
            found.append(Writing(day, xx, said.digest if said else "", str(where)))
        return found

    def opened(self, key: bytes, *, xx: int, day: date, digest: str | None, files: "ArchiveFiles | None") -> Opened:
        """Read the manifest; `files` is for those of an object store."""
        del files
        where = place.folder_of(self.root, xx=xx, day=day)
        found = read(where, key, xx=xx, day=day)
        if digest is not None and found.digest != digest:
            raise Refused("archive_forged", f"the manifest in {where} is not the one that the register names")
        return Opened(found, where)

    def check_files(self, found: Opened) -> None:
        """Hash all files."""
        place.check_files(_folder(found), found.manifest)

    def sizes(self, found: Opened) -> dict[str, int | None]:
        """Look at all files."""
        paths = {name: _folder(found) / name for name in found.manifest.files}
        return {name: path.stat().st_size if path.exists() else None for name, path in paths.items()}

    def staging(self, *, xx: int, day: date) -> AbstractContextManager[Path]:
        """Give a folder beside the archive's own; one process at a time."""
        return place.staging(self.root, xx=xx, day=day)

    def check_place(self, manifest: Manifest, key: bytes, known: Known) -> None:
        """Look at what stands there, and at what a kill may have left beside it."""
        final = place.folder_of(self.root, xx=manifest.xx, day=manifest.day)
        for where in (final, place.replaced(final)):
            standing.check_replaceable(where, key, manifest, known)

    def publish(self, new: Path, manifest: Manifest, key: bytes, known: Known, *, keep_old: bool) -> None:
        """Rename the folder into place."""
        self.check_place(manifest, key, known)
        signed = sign(manifest, key)
        place.publish(new, signed, self.root, xx=manifest.xx, day=manifest.day, keep_old=keep_old)

    def discard_others(self, key: bytes, known: Known, *, xx: int, day: date, digest: str) -> None:
        """Remove the archive that was replaced; raises OSError."""
        del digest  # the one in place has it: it was published before
        final = place.folder_of(self.root, xx=xx, day=day)
        if standing.is_known(place.replaced(final), key, known):
            place.discard_replaced(final)

    def settle(self, key: bytes, known: Known, *, xx: int, day: date, digest: str) -> None:
        """Put a replaced one back if it is the one that counts, else remove it."""
        settling.settle(self.root, key, known, xx=xx, day=day, digest=digest)

    def fetch(self, found: Opened, name: str, path: Path) -> None:
        """Copy the file."""
        shutil.copyfile(_folder(found) / name, path)

    @property
    def disk(self) -> Path:
        """Return the archive's own folder."""
        return self.root


def _folder(found: Opened) -> Path:
    return Path(str(found.where))
