"""One process at a time: a lock file that the kernel lets go of however its holder ends."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from envelope.errors import Refused


@contextmanager
def held(path: Path, refusal: Callable[[str], Refused]) -> Iterator[None]:
    """Hold `path` (made if need be, 0600) for this process; raises `refusal(process ID of who holds it)`."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise refusal(os.pread(handle, 32, 0).decode(errors="replace").strip()) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)
