"""Where memcached's socket is: in the data folder, or in a short private folder where the data folder's path is long.

The kernel takes 107 characters. On a port of loopback every account of the machine could write to memcached, so there
is none: what has no room in the data folder goes below XDG_RUNTIME_DIR, /run or the folder for temporary files. The
inventory keeps the path, and a start takes that folder again if it is still ours; a stop removes it.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from errors import Refused
from installation import inventory
from installation.data_folder import DataFolder
from machine.account import Account, cache_account
from machine.memcached import MAX_SOCKET_PATH, is_private

_NAME = "socket"
_PREFIX = "hongbao-"
_TEMPORARY = "hongbao-12345678"
"""As long as the names that mkdtemp makes of _PREFIX."""


def memcached_socket(folder: DataFolder) -> Path:
    """Return the path of the socket; makes its folder if that is not in the data folder.

    Raises Refused `socket_path_too_long` if no folder with a short path can be written to.
    """
    near = folder.path / "memcached" / _NAME
    if len(str(near)) <= MAX_SOCKET_PATH:
        return near
    account = cache_account()
    earlier = _earlier(folder)
    if earlier is not None and len(str(earlier)) <= MAX_SOCKET_PATH and is_private(earlier.parent, account):
        return earlier
    for base in _short_folders(account):
        if len(str(base / _TEMPORARY / _NAME)) <= MAX_SOCKET_PATH and os.access(base, os.W_OK | os.X_OK):
            return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base)) / _NAME
    raise Refused(
        "socket_path_too_long",
        f"the path of {folder.path} is too long for memcached's socket, and there is no other place for it; "
        "set TMPDIR to a folder with a short path, or choose a data folder with one",
    )


def _earlier(folder: DataFolder) -> Path | None:
    """Return the socket that the inventory names, if it is outside the data folder."""
    if not inventory.is_there(folder.inventory):
        return None
    found = Path(inventory.load(folder.inventory).memcached)
    return found if found.is_absolute() and found.parent.name.startswith(_PREFIX) else None


def _short_folders(account: Account) -> Iterator[Path]:
    """Yield the folders to try; for root such as the other account may enter, too."""
    if account.drop_privileges:
        yield Path("/run")
    elif runtime := os.environ.get("XDG_RUNTIME_DIR"):
        yield Path(runtime)
    yield Path(tempfile.gettempdir())
    yield Path("/tmp")  # noqa: S108 - mkdtemp makes a private folder in it
