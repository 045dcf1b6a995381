"""What a region takes of the machine: namespaces and links under a prefix of its own, and a folder. All of it recorded.

A region that is killed leaves its record. The next start finds that nobody holds the record's lock, ends the processes
in its namespaces, and removes namespaces, links and folder. Nothing else is touched: a name without the prefix of a
record of ours is somebody else's.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from errors import Refused, Unavailable
from hosts.limits import KILL_LOOK_S, KILL_S
from hosts.shell import ip, ip_json, namespaces, processes_in
from machine.file_lock import hold_lock
from runtime.files import write_private
from runtime.unreadable import UNREADABLE

RECORDS = Path("/run/hongbao-hosts")
"""Gone after a reboot, as namespaces are."""
_MOST_REGIONS = 8
_MARK = ".hongbao-hosts"
"""In a folder that a region has made: only such a folder is removed."""


class Record(msgspec.Struct, frozen=True):
    """What a region has taken: all namespaces and links whose names begin with `prefix`, and `folder`."""

    prefix: str
    folder: str
    pid: int


@dataclass(frozen=True)
class Ground:
    """`prefix` begins the names of all namespaces (`PREFIX-…`) and links; `folder` is this region's alone."""

    prefix: str
    folder: Path


@contextlib.asynccontextmanager
async def ground(where: Path | None) -> AsyncIterator[Ground]:
    """Clean away what killed regions have left; take a prefix and a new folder below `where` for the block.

    Raises Refused `hosts_busy` if as many regions run as may.
    """
    RECORDS.mkdir(mode=0o700, exist_ok=True)
    mine: Ground | None = None
    with contextlib.ExitStack() as stack:
        for number in range(_MOST_REGIONS):
            lock = contextlib.ExitStack()
            try:
                lock.enter_context(hold_lock(RECORDS / f"{number}.lock", _busy))
            except Refused:
                continue
            await _clean(RECORDS / f"{number}.json")
            if mine is None:
                mine = _take(number, where)
                stack.push(lock)
            else:
                lock.close()
        if mine is None:
            raise _busy("")
        try:
            yield mine
        finally:
            await asyncio.shield(_clean(RECORDS / f"{_number(mine)}.json"))


def _number(mine: Ground) -> str:
    return mine.prefix.removeprefix("hbr")


def _take(number: int, where: Path | None) -> Ground:
    folder = Path(tempfile.mkdtemp(prefix="hongbao-hosts-", dir=where))
    # The accounts of Postgres and the others pass through, and cannot list it.
    folder.chmod(0o711)
    (folder / _MARK).touch()
    mine = Ground(f"hbr{number}", folder)
    record = Record(mine.prefix, str(folder), os.getpid())
    write_private(RECORDS / f"{number}.json", msgspec.to_builtins(record))
    return mine


def _busy(holder: str) -> Refused:
    del holder
    return Refused("hosts_busy", f"{_MOST_REGIONS} regions run on this machine; stop one of them")


async def _clean(path: Path) -> None:
    """Remove what a record names, then the record; nothing if there is none. Idempotent."""
    try:
        record = msgspec.json.decode(path.read_bytes(), type=Record)
    except FileNotFoundError:
        return
    except UNREADABLE as error:
        raise Refused("hosts_record", f"{path} cannot be read ({error}); remove it, and the namespaces hbr…") from error
    found = [name for name in await namespaces() if name.startswith(f"{record.prefix}-")]
    await asyncio.gather(*(end_processes(name) for name in found))
    links = [one["ifname"] for one in await ip_json("link", "show")]
    doomed = [f"link delete {name}" for name in links if name.startswith(record.prefix)]
    if doomed:
        await ip("-force", lines=doomed)
    if found:
        await ip("-force", lines=[f"netns delete {name}" for name in found])
    folder = Path(record.folder)
    if (folder / _MARK).exists():
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    path.unlink()


async def end_processes(namespace: str) -> None:
    """Kill all processes in a namespace; returns once there are none. Raises Unavailable `host_unkillable`."""
    loop = asyncio.get_running_loop()
    end = loop.time() + KILL_S
    while pids := [one for one in await processes_in(namespace) if not _is_dead(one)]:
        for pid in pids:
            send(pid, signal.SIGKILL)
        if loop.time() > end:
            raise Unavailable("host_unkillable", f"processes {pids} of {namespace} do not end")
        await asyncio.sleep(KILL_LOOK_S)


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal; nothing if the process has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _is_dead(pid: int) -> bool:
    """Say whether a process has ended and only waits for its parent to notice."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0] == "Z"
        )
    except (FileNotFoundError, ProcessLookupError):
        return True
