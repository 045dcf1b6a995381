"""The page's files: everything below `web/`, with an ETag each and one strict policy. They tell nothing of anybody."""

import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from aiohttp import web

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of every answer, also those of the API."""
_TYPES: Final = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".txt": "text/plain",
}


class _File(NamedTuple):
    body: bytes
    content_type: str
    etag: str


class Pages:
    """Read once: what a request names is looked up, never opened."""

    def __init__(self) -> None:
        self._files = dict(_walk(files("ops") / "web", PurePosixPath()))

    def answer(self, request: web.Request, path: str) -> web.Response | None:
        """Return a file, 304 if the browser has it; None if there is none of this name."""
        found = self._files.get(path or "index.html")
        if found is None:
            return None
        # Asked again each time, and mostly answered with 304: after an upgrade no page has old modules.
        headers = {"ETag": f'"{found.etag}"', "Cache-Control": "no-cache"}
        if any(one.value == found.etag for one in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        return web.Response(body=found.body, content_type=found.content_type, charset="utf-8", headers=headers)


def _walk(folder: Traversable, below: PurePosixPath) -> list[tuple[str, _File]]:
    found: list[tuple[str, _File]] = []
    for one in folder.iterdir():
        path = below / one.name
        if one.is_dir():
            found += _walk(one, path)
        elif path.suffix in _TYPES:
            body = one.read_bytes()
            found.append((str(path), _File(body, _TYPES[path.suffix], hashlib.sha256(body).hexdigest()[:32])))
    return found
