"""One process at a time: a lock on a file, which the kernel releases when its holder ends, however it ends."""

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from errors import Refused


@contextmanager
def hold_lock(path: Path, refusal: Callable[[str], Refused], *, shared: bool = False) -> Iterator[None]:
    """Lock `path` (made if need be, 0600) for the block; raises `refusal(process ID of the holder)` if it is locked.

    `shared`: others may hold it shared at the same time; the process ID in the refusal is "" then. Raises Refused
    `symlink_refused` if it is a link: whoever may write in its folder could have root write elsewhere.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise symlink_refused(path) from error
        raise
    try:
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            raise refusal(os.pread(handle, 32, 0).decode(errors="replace").strip()) from None
        os.ftruncate(handle, 0)
        if not shared:
            os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def symlink_refused(path: Path) -> Refused:
    """Return the error for a symbolic link where a file or folder of ours is expected."""
    return Refused("symlink_refused", f"{path} is a symbolic link, and links are not followed here: remove it")
