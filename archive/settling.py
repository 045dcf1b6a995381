"""Which archive of a folder stands after a kill between the publication of one written anew and the commit."""

from datetime import date
from pathlib import Path

from archive import place, standing
from archive.known import Known
from archive.manifest import read
from errors import Refused


def settle(root: Path, key: bytes, known: Known, *, xx: int, day: date, digest: str) -> None:
    """After a kill between publication and commit: put the archive that the register names (`digest`) in its place.

    Does nothing if there was none, and removes nothing that is not known, and nothing unless that one is whole. Raises
    Refused `archive_not_written`; `archive_of_another` if the place is taken by one that is not known.
    """
    final = place.folder_of(root, xx=xx, day=day)
    old = place.replaced(final)
    if not old.exists():
        return
    try:
        if not _is(key, final, xx, day, digest) and _is(key, old, xx, day, digest):
            standing.check_replaceable(final, key, read(old, key, xx=xx, day=day), known)
            place.put_back(final)
        elif _is(key, final, xx, day, digest, whole=True) and standing.is_known(old, key, known):
            place.discard_replaced(final)
    except OSError as error:
        raise place.not_written(final, error) from error


def _is(key: bytes, where: Path, xx: int, day: date, digest: str, *, whole: bool = False) -> bool:
    """Say whether an archive is the one with this digest; `whole`: and all its files are what was exported."""
    try:
        manifest = read(where, key, xx=xx, day=day)
        if whole:
            place.check_files(where, manifest)
    except Refused:
        return False
    return manifest.digest == digest
