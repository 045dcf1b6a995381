"""CPU time of processes, as Linux counts it, in seconds since they began.

Threads that live are read to the nanosecond from /proc/PID/task/TID/schedstat, processes that have ended from their
parent's account of them, in ticks of 10 ms; where the kernel keeps no schedstat everything comes in ticks.
"""

import os
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_UTIME, _STIME, _CUTIME, _CSTIME = 11, 12, 13, 14
"""Places behind the command's name; the last two are those of children that have ended."""


def used_s(pid: int) -> float:
    """Return the CPU seconds of a process and all its descendants, ended ones included; a dead process has used 0.

    A Postgres is its postmaster and a backend per connection: descendants are most of it.
    """
    folder = Path(f"/proc/{pid}")
    try:
        fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ended_s = (int(fields[_CUTIME]) + int(fields[_CSTIME])) * _TICK_S
        threads = list((folder / "task").iterdir())
        try:
            own_s = sum(int((thread / "schedstat").read_text(encoding="utf-8").split()[0]) for thread in threads) * 1e-9
        except FileNotFoundError:
            own_s = (int(fields[_UTIME]) + int(fields[_STIME])) * _TICK_S
        children = [int(one) for thread in threads for one in (thread / "children").read_text("utf-8").split()]
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return own_s + ended_s + sum(map(used_s, children))
