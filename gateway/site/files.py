"""The files of `web/`: each with a name that changes with its content, compressed once."""

import gzip
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from errors import InvariantBroken

FOLDER: Final = Path(__file__).resolve().parents[2] / "web"
"""Beside the rooms, in a checkout as in an installed package."""
INDEX: Final = "index.html"
MEDIA: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml; charset=utf-8",
}
"""What is served, by suffix. Licences, the manifest and the index are not assets."""
HASH_CHARS: Final = 10
"""Of the SHA-256, in a file's name: two contents of one name never meet in practice."""
_GZIP_LEVEL: Final = 9


class File(msgspec.Struct, frozen=True):
    """One file. `name` is its path below `web/`, `hashed` the path under which it is served."""

    name: str
    hashed: str
    content_type: str
    body: bytes
    gzipped: bytes
    """The body compressed, or the body itself where that is not longer."""
    etag: str
    """Without quotes."""


def read_files(folder: Path = FOLDER) -> dict[str, File]:
    """Return the assets of a folder by name. Raises InvariantBroken `site_incomplete` if there is none."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in MEDIA and path.is_file())
    if not paths:
        raise InvariantBroken(
            "site_incomplete", f"there are no files of the page in {folder}; install the package again"
        )
    return {one.name: one for one in (make_file(path.relative_to(folder).as_posix(), path) for path in paths)}


def make_file(name: str, path: Path, media: Mapping[str, str] = MEDIA) -> File:
    """Read one file; `media` has its content type by its suffix."""
    body = path.read_bytes()
    digest = sha256(body).hexdigest()[:HASH_CHARS]
    stem, dot, suffix = name.rpartition(".")
    return File(name, f"{stem}.{digest}{dot}{suffix}", media[path.suffix], body, compress(body), digest)


def compress(body: bytes) -> bytes:
    """Return the body in gzip, the same bytes each time, or as it is where that would not be shorter."""
    # Without a time: all gateways have the same bytes under the same ETag.
    smaller = gzip.compress(body, _GZIP_LEVEL, mtime=0)
    return smaller if len(smaller) < len(body) else body
