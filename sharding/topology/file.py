"""The topology as a JSON file that processes re-read without a restart: checked, replaced in one step."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile

import msgspec

from runtime import metrics
from sharding.slots import database_name
from sharding.topology.check import check_topology, invalid
from sharding.topology.spec import Topology, placed

# A hundred SETs of 64 servers fit; anything larger is not this file.
MAX_FILE_BYTES = 1_048_576

VERSION_METRIC = "hongbao_topology_version"
_version = metrics.gauge(VERSION_METRIC, "Version of the topology that this process goes by")


def load(path: Path) -> Topology:
    """Return the topology in the file. Raises Refused `topology_invalid`: unreadable, not JSON, or wrong."""
    return _parse(_read(path), path)


def dump(topology: Topology, path: Path) -> None:
    """Write the topology so that a reader sees the old file or the new one, never a part; durable on return.

    Raises Refused `topology_invalid` before anything is written.
    """
    check_topology(topology)
    text = msgspec.json.format(msgspec.json.encode(topology), indent=2) + b"\n"
    # In the same folder, because only a rename within one file system is atomic.
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        temporary = Path(file.name)
        try:
            file.write(text)
            file.flush()
            # Every process of the installation reads it, whoever wrote it; it holds no secrets.
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    _sync_folder(path)


def change(path: Path, how: Callable[[Topology], Topology]) -> Topology:
    """Replace the file's topology by `how(topology)` and return it; whoever else changes it waits meanwhile.

    Durable on return; nothing is written where `how` changes nothing. Raises Refused `topology_invalid`, and whatever
    `how` raises, before anything is written.
    """
    # Of its own, because the file itself is replaced and a lock on it would be a lock on yesterday's.
    lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        old = load(path)
        new = how(old)
        if new != old:
            check_successor(old, new)
            dump(new, path)
        else:
            # Whoever wrote what stands there may have failed, or died, before its name was durable.
            _sync_folder(path)
        return new
    finally:
        os.close(lock)


class TopologyFile:
    """Holds the current topology of a file; `reload` takes a newer one, and never a bad one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes = _read(path)
        self._current = _parse(self._bytes, path)
        _version.set(self._current.version)

    @property
    def current(self) -> Topology:
        """The topology that was last accepted. Read it once per request: it is replaced as a whole."""
        return self._current

    def reload(self) -> bool:
        """Take the file's topology if it changed; return whether it did. Costs one read of a small file.

        Raises Refused `topology_invalid` and keeps the current one if the file is invalid, has a lower
        version, the same version with another content, another number of slots or time zone (those stand in every
        ID), or a database that changes its SET without a higher epoch.
        """
        data = _read(self._path)
        if data == self._bytes:
            return False
        new = _parse(data, self._path)
        changed = new != self._current
        if changed:
            check_successor(self._current, new)
            self._current = new
            _version.set(new.version)
        self._bytes = data
        return changed


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
        if after == before and placed(old, xx) != placed(new, xx):
            raise invalid(
                f"epochs.{name}",
                f"must rise above {before} where the database changes its SET: as it stands its envelopes would be "
                f"looked for on {new.set_for_database(xx).name}; pin it to {old.set_for_database(xx).name} or move it",
            )


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


def _parse(data: bytes, path: Path) -> Topology:
    try:
        topology = msgspec.json.decode(data, type=Topology)
    except msgspec.DecodeError as error:
        raise invalid(str(path), str(error)) from error
    check_topology(topology)
    return topology
