"""The topology as a JSON file that processes re-read without a restart: checked, replaced in one step."""

import os
from pathlib import Path
from tempfile import NamedTemporaryFile

import msgspec

from sharding.topology.check import check_topology, invalid
from sharding.topology.spec import Topology

# A hundred SETs of 64 servers fit; anything larger is not this file.
MAX_FILE_BYTES = 1_048_576


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
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class TopologyFile:
    """Holds the current topology of a file; `reload` takes a newer one, and never a bad one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes = _read(path)
        self._current = _parse(self._bytes, path)

    @property
    def current(self) -> Topology:
        """The topology that was last accepted. Read it once per request: it is replaced as a whole."""
        return self._current

    def reload(self) -> bool:
        """Take the file's topology if it changed; return whether it did. Costs one read of a small file.

        Raises Refused `topology_invalid` and keeps the current one if the file is invalid, has a lower
        version, the same version with another content, or another number of slots or time zone (those
        stand in every ID).
        """
        data = _read(self._path)
        if data == self._bytes:
            return False
        new = _parse(data, self._path)
        changed = new != self._current
        if changed:
            _check_successor(self._current, new)
            self._current = new
        self._bytes = data
        return changed


def _check_successor(old: Topology, new: Topology) -> None:
    if new.version <= old.version:
        raise invalid("version", f"must be above {old.version} where anything changed, is {new.version}")
    if (new.slots, new.time_zone) != (old.slots, old.time_zone):
        raise invalid("slots or time_zone", "can never change, every ID is made of them")


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
