"""Who may read and write what is in the data folder, and whether its secrets are whole."""

import stat
from collections.abc import Iterator
from pathlib import Path

from doctor.finding import Finding, Level, sentence
from doctor.place import Place
from errors import Refused
from installation.access import PROOFS
from installation.finding import secrets_of
from local.known_clusters import check_secrets
from machine.writers import other_writers
from switches.file import beside

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def private(place: Place) -> Iterator[Finding]:
    """Name files that other users may read, and a data folder in which they may write."""
    folder = place.folder
    named = (folder.secrets, folder.topology, folder.inventory, folder.running, beside(folder.topology))
    paths = [*named, folder.secrets.with_name(PROOFS), *folder.logs.glob("*.log*"), *folder.certificates.glob("*")]
    found = [(path, mode) for path in paths if (mode := _mode(path)) is not None]
    wrong = [path for path, mode in found if mode & _OTHERS]
    for path in wrong:
        what = f"Other users of this machine may read or write {path}."
        do = f"chmod 600 '{path}'"
        if path == folder.secrets:
            do += "; if somebody has read it, docs/security.md says which keys to replace."
        yield Finding("private", Level.WRONG, str(path), what, do)
    if others := _other_writers(folder.path):
        what = f"{others[0].upper()}{others[1:]} may write to {folder.path}: the next start is refused."
        yield Finding("private", Level.WRONG, str(folder.path), what, f"chmod go-w '{folder.path}'")
    elif found and not wrong:
        yield Finding("private", Level.OK, "private files", "keys, addresses and logs are for their owner alone")


def _other_writers(folder: Path) -> str:
    try:
        return other_writers(folder)
    except OSError:
        return ""


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def secrets(place: Place) -> Iterator[Finding]:
    """Say which keys or passwords are missing beside clusters that need them."""
    if place.access is None:
        return
    path = place.folder.secrets
    try:
        known = secrets_of(place.folder.named)
        check_secrets(place.folder, known, place.access.servers())
        replaced = known.replaced()
    except Refused as refused:
        do = f"Bring {path} back from where the backups are; without it the next start is refused."
        yield Finding("secrets", Level.WRONG, str(path), sentence(refused.detail), do)
        return
    for name in replaced:
        what = f"HONGBAO_{name} of this terminal is not the key in {path}, and what is run here goes by it."
        do = f"unset HONGBAO_{name}, if it is left from another installation: these gateways may refuse what it makes."
        yield Finding("secrets", Level.NOTE, f"HONGBAO_{name}", what, do)
