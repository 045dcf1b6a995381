"""How many files processes may open and have open: a client's connection is one."""

import re
import resource
from collections.abc import Iterator
from pathlib import Path

from doctor.finding import Finding, Level
from doctor.limits import FILES_USED
from doctor.place import Place
from gateway.limits import CONNECTIONS, SPARE_FILES
from runtime.wording import counted

_LIMIT = re.compile(r"^Max open files\s+(\d+)", re.MULTILINE)
_DO = f"Raise it before the start: ulimit -n {CONNECTIONS + SPARE_FILES} (systemd: LimitNOFILE=); then ./run restart."


def open_files(place: Place) -> Iterator[Finding]:
    """Judge each process that runs; while none does, what a start would have from here."""
    found = []
    for part in place.running.parts if place.running is not None else ():
        if (seen := _of_process(part.pid)) is not None:
            found += judge(part.name, *seen, serves=part.name.startswith("gateway"))
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if place.running is None and soft != resource.RLIM_INFINITY:
        found += judge("a gateway started from here", soft, 0, serves=True)
    yield from found or [Finding("open_files", Level.OK, "open files", "processes may open as many files as they need")]


def judge(name: str, limit: int, used: int, *, serves: bool) -> list[Finding]:
    """Say what a process' limit of open files means; `serves`: it has a file for each client that is connected."""
    if serves and limit <= SPARE_FILES:
        what = f"{name} may open {counted(limit, 'file')} only, and does not start with {SPARE_FILES} or fewer."
        return [Finding("open_files", Level.WRONG, name, what, _DO)]
    if used >= FILES_USED * limit:
        what = f"{name} has {used:,} of {counted(limit, 'file')} open that it may open."
        return [Finding("open_files", Level.SOON, name, what, _DO)]
    if serves and limit < CONNECTIONS + SPARE_FILES:
        what = f"{name} may open {counted(limit, 'file')}: {limit - SPARE_FILES:,} clients, not {CONNECTIONS:,}."
        return [Finding("open_files", Level.NOTE, name, what, _DO)]
    return []


def _of_process(pid: int) -> tuple[int, int] | None:
    """Return limit and number of open files; None without a limit, or if the process has ended or is not ours."""
    try:
        limit = _LIMIT.search(Path(f"/proc/{pid}/limits").read_text(encoding="ascii"))
        return None if limit is None else (int(limit[1]), len(list(Path(f"/proc/{pid}/fd").iterdir())))
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
