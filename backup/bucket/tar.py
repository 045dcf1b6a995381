"""A cluster's folder as one tar, and back. What comes back is checked name by name: somebody else may have put it."""

import hashlib
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from backup.disk import disk_error
from errors import Refused


def pack(folder: Path, target: Path) -> str:
    """Write the folder's files to the tar `target`; returns its SHA-256 in hex. Raises OSError."""
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        tar.add(folder, arcname=".", recursive=True)
    with target.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unpack(chunks: Iterator[bytes], folder: Path, sha256: str, where: str) -> None:
    """Write a tar's files below a new folder; raises Refused `backup_unreadable` unless it has this SHA-256.

    Only plain files and folders below `folder` are made, readable by their owner alone.
    """
    stream = _Hashed(chunks)
    folder.mkdir(mode=0o700)
    try:
        with tarfile.open(fileobj=io.BufferedReader(stream, 1 << 20), mode="r|") as tar:
            for one in tar:
                _extract(tar, one, folder, where)
    except tarfile.TarError as error:
        raise Refused("backup_unreadable", f"{where} is no tar: {error}") from error
    except OSError as error:
        raise disk_error(folder, error) or Refused(
            "backup_unreadable", f"{where} holds what cannot be written ({error.strerror})"
        ) from error
    if stream.finish() != sha256:
        raise Refused("backup_unreadable", f"{where} is not the copy that was put: its SHA-256 differs")


def _extract(tar: tarfile.TarFile, one: tarfile.TarInfo, folder: Path, where: str) -> None:
    name = PurePosixPath(one.name)
    if name.is_absolute() or ".." in name.parts or not (one.isreg() or one.isdir()):
        raise Refused("backup_unreadable", f"{where} holds {one.name[:100]!r}, which no base copy of ours has")
    path = folder / name
    if one.isdir():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return
    source = tar.extractfile(one)
    if source is None:
        raise Refused("backup_unreadable", f"{where} holds {one.name[:100]!r} without content")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("wb") as target:
        while chunk := source.read(1 << 20):
            target.write(chunk)
    path.chmod(0o600)


class _Hashed(io.RawIOBase):
    """The chunks as a file, hashed as they are read."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        super().__init__()
        self._chunks = chunks
        self._rest = b""
        self._digest = hashlib.sha256()

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: object) -> int:
        """Fill the buffer with what comes next."""
        view = memoryview(buffer)  # type: ignore[arg-type]  # what io passes is a buffer
        if not self._rest:
            self._rest = next(self._chunks, b"")
            self._digest.update(self._rest)
        count = min(len(view), len(self._rest))
        view[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def finish(self) -> str:
        """Read to the end; return the SHA-256 of everything, in hex."""
        for chunk in self._chunks:
            self._digest.update(chunk)
        return self._digest.hexdigest()
