"""Whose archive stands in a folder: one of this installation, damaged or not, which may be replaced, or another's."""

import contextlib
from pathlib import Path

from archive import manifest, place
from archive.known import Known
from archive.manifest import Manifest
from errors import Refused


def check_replaceable(where: Path, key: bytes, new: Manifest, known: Known) -> None:
    """Raise Refused `archive_of_another` if `new` must not take the place of what stands in the folder `where`."""
    if _is_of_another(where, key, new, known):
        raise of_another(where)


def of_another(where: object) -> Refused:
    """Return the error for an archive that stands in our way and was never named here."""
    return Refused(
        "archive_of_another",
        f"{where} is an archive that no register here has named, or has another key; nothing was written. If another "
        "installation uses this place, give each its own (HONGBAO_ARCHIVE); if this SET was restored to before that "
        "day was archived, move the archive elsewhere and keep it",
    )


def is_known(where: Path, key: bytes, known: Known) -> bool:
    """Say whether the archive in a folder is signed by us, and a register or operation log here has named it."""
    said = manifest.unproven(where)
    return said is not None and said.is_signed(key) and said.digest in known


def _is_of_another(where: Path, key: bytes, new: Manifest, known: Known) -> bool:
    if not where.is_dir() or not any(where.iterdir()):
        return False
    said = manifest.unproven(where)
    if said is not None and (said.digest in known or said.digest == new.digest):
        # With another key it is that of an installation whose copy this one is: the day was closed before the copy.
        return not said.is_signed(key)
    if not known.named:
        return True  # whatever it is, it was not put there by us
    if said is None or said.content is None:
        return False  # ours stood here, and its manifest is gone or no manifest any more: damage
    if all(name in said.content.files and _same(said.content, new, name) for name in new.files):
        return False  # the same rows: nothing is lost
    with contextlib.suppress(Refused):
        place.check_files(where, said.content)
        return True  # whole, with other rows, and it is not what the register names
    return False


def _same(one: Manifest, other: Manifest, name: str) -> bool:
    return one.files[name].rows_sha256 == other.files[name].rows_sha256
