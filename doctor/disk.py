"""Free space where data, archive, logs and backups are, by the bounds of a Postgres that starts."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from archive.store import disk_of
from doctor.finding import Finding, Level
from doctor.place import Place
from errors import Refused
from machine.postgres.server import MIN_FREE_BYTES, MIN_FREE_TO_MAKE_BYTES
from objectstore.address import is_address

_MB = 1024 * 1024


def space(place: Place) -> Iterator[Finding]:
    """Look at each disk once."""
    folder = place.folder
    names = place.access.servers() if place.access is not None else []
    folders = [folder.path, _archive(place), folder.logs, *(folder.postgres(name) for name in names)]
    if place.backups and not is_address(place.backups):
        folders.append(Path(place.backups))
    seen: set[int] = set()
    for one in map(_existing, folders):
        if (disk := one.stat().st_dev) not in seen:
            seen.add(disk)
            yield judge(one, shutil.disk_usage(one).free)


def judge(folder: Path, free: int) -> Finding:
    """Say what `free` bytes at a folder mean."""
    free_mb = f"{free // _MB:,} MB"
    do = "Make room: ./run backup prune for old copies; after that a larger disk."
    if free < MIN_FREE_BYTES:
        what = f"Only {free_mb} are free at {folder}: no Postgres starts with less than {MIN_FREE_BYTES // _MB} MB."
        return Finding("disk", Level.WRONG, str(folder), what, do)
    if free < MIN_FREE_TO_MAKE_BYTES:
        what = f"Only {free_mb} are free at {folder}, less than the {MIN_FREE_TO_MAKE_BYTES // _MB} MB to work with."
        return Finding("disk", Level.SOON, str(folder), what, do)
    return Finding("disk", Level.OK, str(folder), f"{free_mb} are free at {folder}")


def _archive(place: Place) -> Path:
    try:
        return place.folder.archive if place.access is None else disk_of(place.access.archive().folder)
    except Refused:
        return place.folder.archive  # its key differs: the archive's own commands say so


def _existing(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder
