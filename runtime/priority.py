"""How far a process gives way to others on its machine."""

import contextlib
import os
from pathlib import Path

_AUTOGROUP = Path("/proc/self/autogroup")


def give_way(nice: int) -> None:
    """Lower this process's priority: 0 is as all others, 19 takes CPU that hardly anybody else wants.

    Linux shares CPU between sessions first (`sched_autogroup`), and nice orders only what is within one; so a process
    that has a session of its own lowers that, too. Where it may not, it is left.
    """
    if not nice:
        return
    os.nice(nice)
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):
            _AUTOGROUP.write_text(f"{nice}\n", encoding="ascii")
