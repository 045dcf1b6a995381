"""The topology as a JSON file: checked, replaced atomically, and read again by processes without a restart.

A file of a later release may have fields that this one does not know. Whoever reads it ignores them, and says so in the
log: they may as well be slips of somebody who edited it. Nobody of this release writes over them.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import msgspec

from errors import Refused
from runtime import logs, metrics
from runtime.unreadable import UNREADABLE
from sharding.limits import MAX_FILE_BYTES
from sharding.slots import database_name
from sharding.topology.check import check_topology, invalid
from sharding.topology.spec import Topology, placement_key

VERSION_METRIC = "hongbao_topology_version"
_log = logs.get("sharding")
_version = metrics.gauge(VERSION_METRIC, "Version of the topology that this process goes by")


def load(path: Path) -> Topology:
    """Return the topology in the file. Raises Refused `topology_invalid`: unreadable, not JSON, or wrong."""
    return parse(_read(path), path)


def unknown_fields(path: Path) -> list[str]:
    """Return the fields of the file that this release does not know, such as `sets[0].zone`; raises as `load`."""
    return unknown_in(_read(path), path)


def unknown_in(data: bytes, where: object) -> list[str]:
    """Return the fields of a topology's text that this release does not know; raises as `parse`."""
    return list(_unknown(msgspec.json.decode(data), msgspec.to_builtins(parse(data, where))))


def dump(topology: Topology, path: Path) -> None:
    """Write the topology so that a reader sees the old file or the new one, never a part. Durable on return.

    Only the owner reads it (0600): it tells where each part listens. Root leaves a file to its owner. Raises
    Refused `topology_invalid` before anything is written.
    """
    check_topology(topology)
    _write(as_text(topology).encode(), path)


def _write(text: bytes, path: Path) -> None:
    # In the same folder, because only a rename within one file system is atomic.
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        temporary = Path(file.name)
        try:
            file.write(text)
            file.flush()
            _keep_owner(file.fileno(), path)
            os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    _sync_folder(path)


def as_text(topology: Topology) -> str:
    """Return what `dump` writes."""
    return msgspec.json.format(msgspec.json.encode(topology), indent=2).decode() + "\n"


def _keep_owner(handle: int, path: Path) -> None:
    """Give the new file to the owner of the file at `path`, if we are root: its processes must still read it."""
    if os.geteuid() == 0 and path.exists():
        old = path.stat()
        os.fchown(handle, old.st_uid, old.st_gid)


def change(path: Path, how: Callable[[Topology], Topology]) -> Topology:
    """Replace the file's topology by `how(topology)` and return that; other processes that change it wait meanwhile.

    Durable on return. If `how` changes nothing, nothing is written. Raises Refused `topology_invalid`,
    `topology_of_later_release` for a file with fields that this release does not know, and what `how` raises, before
    anything is written.
    """
    with _locked(path):
        old = load(path)
        new = how(old)
        if new != old:
            refuse_unknown(_read(path), path)
            check_successor(old, new)
            dump(new, path)
        else:
            # The process that wrote this content may have ended before the rename was durable.
            _sync_folder(path)
        return new


def refuse_unknown(data: bytes, where: object) -> None:
    """Raise Refused `topology_of_later_release` if whoever writes a successor of `data` would lose fields of it."""
    if unknown := unknown_in(data, where):
        raise Refused(
            "topology_of_later_release",
            f"{where} has fields that this release does not know and would lose: {', '.join(unknown)}; change "
            "it with the release that wrote them, or take them out if they are slips",
        )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    # A lock file of its own: the topology file is replaced, so a lock on it would hold only for the old one.
    lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def adopt(path: Path, data: bytes) -> bool:
    """Put a topology that was published elsewhere into the file, if it is newer or there is none; says whether it was.

    Durable on return. Raises Refused `topology_invalid` if it is wrong, of the file's version with another content, or
    must not follow the file's. A file that is damaged is replaced.
    """
    new = parse(data, f"the published topology for {path}")
    with _locked(path):
        old = _known(path)
        if old is not None:
            if new.version < old.version or new == old:
                return False
            check_successor(old, new)
        # As it stands, with fields that this release does not know.
        _write(data, path)
    return True


def _known(path: Path) -> Topology | None:
    """Return the topology in the file; None if there is none, or a damaged one."""
    try:
        return load(path)
    except Refused:
        return None


class TopologyFile:
    """Holds the current topology of a file. `reload` replaces it by a newer one, never by one that is wrong."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes = _read(path)
        self._current = parse(self._bytes, path)
        self._tell_unknown()
        _version.set(self._current.version)

    @property
    def current(self) -> Topology:
        """The topology accepted last. Read it once per request: the next may be another."""
        return self._current

    def reload(self) -> bool:
        """Take the file's topology if it changed; return whether it did. Reads the whole file each time.

        Raises Refused `topology_invalid` and keeps the current one if the file is invalid, has a lower
        version, the same version with another content, another number of slots or time zone (those stand in every
        ID), or a database that changes its SET without a higher epoch.
        """
        data = _read(self._path)
        if data == self._bytes:
            return False
        new = parse(data, self._path)
        changed = new != self._current
        if changed:
            check_successor(self._current, new)
            self._current = new
            _version.set(new.version)
        self._bytes = data
        self._tell_unknown()
        return changed

    def _tell_unknown(self) -> None:
        """Log which fields of the file are ignored, once for each content."""
        unknown = list(_unknown(msgspec.json.decode(self._bytes), msgspec.to_builtins(self._current)))
        if unknown:
            _log.warning(
                "the topology has fields that this release does not know", path=str(self._path), fields=unknown
            )


def check_successor(old: Topology, new: Topology) -> None:
    """Raise Refused `topology_invalid` where `new` must not follow `old`."""
    if new.version <= old.version:
        raise invalid("version", f"must be above {old.version} where anything changed, is {new.version}")
    if (new.slots, new.time_zone) != (old.slots, old.time_zone):
        raise invalid("slots or time_zone", "can never change, every ID is made of them")
    for xx, (before, after) in enumerate(zip(old.epoch_of, new.epoch_of, strict=True)):
        name = database_name(xx)
        if after < before:
            raise invalid(f"epochs.{name}", f"must not sink, it was {before} and is {after}")
        if after == before and placement_key(old, xx) != placement_key(new, xx):
            raise invalid(
                f"epochs.{name}",
                f"must rise above {before} where the database changes its SET: as it stands its envelopes would be "
                f"looked for on {new.set_for_database(xx).name}; pin it to {old.set_for_database(xx).name} or move it",
            )


def _unknown(found: Any, known: Any, where: str = "") -> Iterator[str]:
    """Yield where `found`, the JSON as it stands, has names that `known`, what was read of it, has not."""
    if isinstance(found, dict) and isinstance(known, dict):
        for name, value in found.items():
            place = f"{where}.{name}" if where else str(name)
            if name not in known:
                yield place
            else:
                yield from _unknown(value, known[name], place)
    elif isinstance(found, list) and isinstance(known, list | tuple):
        for number, (one, other) in enumerate(zip(found, known, strict=True)):
            yield from _unknown(one, other, f"{where}[{number}]")


def _sync_folder(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise invalid(str(path), f"cannot be read ({error.strerror})") from error
    if len(data) > MAX_FILE_BYTES:
        raise invalid(str(path), f"has more than {MAX_FILE_BYTES} bytes")
    return data


def parse(data: bytes, where: object) -> Topology:
    """Return the topology in `data`, which is from `where`; raises Refused `topology_invalid`."""
    try:
        topology = msgspec.json.decode(data, type=Topology)
    except UNREADABLE as error:
        raise invalid(str(where), str(error)) from error
    check_topology(topology)
    return topology
