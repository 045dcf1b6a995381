"""The documentation site below `/docs/`, where it was built (`docs/build`); where it was not, these paths are 404."""

import asyncio
from pathlib import Path
from typing import Final

from aiohttp import hdrs

from errors import Refused
from gateway.http.answer import Answer
from gateway.http.request import Request
from gateway.limits import HANDBOOK_BYTES, HANDBOOK_FILES
from gateway.resources import Operations, Resource
from gateway.site.answers import REVALIDATE, Held, hold
from gateway.site.files import INDEX, MEDIA, make_file
from runtime import logs

FOLDER: Final = Path(__file__).resolve().parents[2] / ".tools" / "docs"
"""Where a checkout has the site; an installed package has none."""
PREFIX: Final = "/docs/"
_MEDIA: Final = {
    **MEDIA,
    ".html": "text/html; charset=utf-8",
    ".png": "image/png",
    ".conf": "text/plain; charset=utf-8",
    ".cfg": "text/plain; charset=utf-8",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""The theme's style has its icons as data: URLs; the search reads the pages that it finds, to show the words."""
_PICTURE: Final = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""A picture has its colours, for light and dark, inside; it can run nothing."""

_log = logs.get("gateway")


class Handbook:
    """The files of the site by path. A file is read, in a thread, when it is asked for first, and kept.

    Its folder is looked into once: after another build the gateways are restarted. A folder that holds too much is not
    served at all.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        files = [path for path in sorted(folder.rglob("*")) if path.suffix in _MEDIA and path.is_file()]
        paths = {f"{PREFIX}{path.relative_to(folder).as_posix()}": path for path in files}
        if len(files) > HANDBOOK_FILES or sum(path.stat().st_size for path in files) > HANDBOOK_BYTES:
            _log.warning("the documentation is too large to be served", folder=str(folder), files=len(files))
            paths = {}
        self._paths = paths
        self._held: dict[str, Held] = {}
        self._reading = asyncio.Lock()
        page = ("getHandbook", self.page)
        self._operations: Operations = {hdrs.METH_GET: page, hdrs.METH_HEAD: page}

    def __bool__(self) -> bool:
        """Say whether there is a site."""
        return f"{PREFIX}{INDEX}" in self._paths

    def operations_of(self, path: str) -> Operations | None:
        """Return the operations of a path; None if the site has nothing there."""
        return self._operations if _whole(path) in self._paths else None

    async def page(self, request: Request, resource: Resource) -> Answer:
        """Return a file; raises Refused `route_not_found` if it went away after the start."""
        name = _whole(resource.id_text)
        if name not in self._held:
            async with self._reading:
                if name not in self._held:
                    self._held[name] = await asyncio.to_thread(_read, name, self._paths[name])
        return self._held[name].answer(request)


def _whole(path: str) -> str:
    return f"{path}{INDEX}" if path.endswith("/") else path


def _read(name: str, path: Path) -> Held:
    try:
        file = make_file(name, path, _MEDIA)
    except OSError as error:
        _log.warning("a page of the documentation cannot be read", path=str(path), error=error.strerror)
        raise Refused("route_not_found", "this page cannot be read just now; the gateway's log says why") from None
    policy = _PICTURE if path.suffix == ".svg" else _POLICY
    more = {"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer"}
    return hold(file, REVALIDATE, more=more)
