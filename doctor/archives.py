"""Whether the place of the archive is there and answers: a folder that is mounted, or an object store."""

from pathlib import Path

from archive.store import archived
from doctor.finding import Finding, Level, sentence
from doctor.place import Place
from errors import HongbaoError
from runtime.wording import counted


def archives(place: Place) -> list[Finding]:
    """Read the list of what is archived; `./run archive verify` is what proves it."""
    if place.access is None:
        return []
    try:
        root = place.access.archive().folder
        if isinstance(root, Path) and not root.is_dir():
            return [] if place.access.runner else [_missing(root)]
        found = archived(root)
    except (HongbaoError, OSError) as error:
        what = sentence(f"The archive cannot be read: {getattr(error, 'detail', error)}")
        do = "Days stay in the database until it can; mend it, then ./run archive list."
        return [Finding("archive", Level.WRONG, "archive", what, do)]
    return [Finding("archive", Level.OK, "archive", f"{counted(len(found), 'archive')} in {root}")]


def _missing(root: Path) -> Finding:
    what = f"The archive's folder {root} is not there."
    return Finding("archive", Level.WRONG, "archive", what, "Mount it, or make it: it is one folder for all hosts.")
