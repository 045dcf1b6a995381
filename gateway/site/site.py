"""Which path names which file of the page, and the answers."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from aiohttp import hdrs

from errors import Refused
from gateway.http.answer import Answer
from gateway.http.request import Request
from gateway.resources import Operations, Resource
from gateway.site.answers import IMMUTABLE, REVALIDATE, Held, accepts, hold, takes
from gateway.site.files import FOLDER, HASH_CHARS, INDEX, File, compress, read_files
from gateway.site.page import ASSETS, policy, render

SHARED: Final = "/s/"
"""Below it stands the text of a share link; the page reads it there, and the gateway in the calls that follow."""
_ROOT: Final = ("app.js", "screens/home.js", "screens/signin.js")
_SHARED: Final = ("app.js", "screens/envelope.js")
"""The modules with which a page begins."""
_HTML: Final = "text/html; charset=utf-8"
_MEDIA: Final = "text/html"
_VARY: Final = f"{hdrs.ACCEPT}, {hdrs.ACCEPT_ENCODING}"


class Site:
    """The page and its files, prepared once. `parents` are the origins that may frame it."""

    def __init__(self, parents: tuple[str, ...] = (), folder: Path = FOLDER, *, sandbox: bool = False) -> None:
        files = read_files(folder)
        template = (folder / INDEX).read_text(encoding="utf-8")
        headers = {
            "Content-Security-Policy": policy(files, parents),
            # The path of a share link opens an envelope: no other site may hear it.
            "Referrer-Policy": "no-referrer",
            "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        }

        def index(base: str, modules: Sequence[str]) -> Held:
            body = render(template, files, base, parents, modules, sandbox=sandbox).encode()
            file = File(INDEX, INDEX, _HTML, body, compress(body), _etag(body, headers))
            return hold(file, REVALIDATE, vary=_VARY, more=headers)

        self._root, self._shared = index("./", _ROOT), index("../", _SHARED)
        self._assets = {f"/{ASSETS}{one.hashed}": hold(one, IMMUTABLE, more={}) for one in files.values()}
        page, asset = ("getPage", self.page), ("getAsset", self.asset)
        self._page: Operations = {hdrs.METH_GET: page, hdrs.METH_HEAD: page}
        self._asset: Operations = {hdrs.METH_GET: asset, hdrs.METH_HEAD: asset}

    def operations_of(self, path: str) -> Operations | None:
        """Return the operations of a path that no route has, by method; None if the page has nothing there either."""
        if path in self._assets:
            return self._asset
        shared = path.startswith(SHARED) and len(path) > len(SHARED) and "/" not in path[len(SHARED) :]
        return self._page if shared or path == "/" else None

    async def page(self, request: Request, resource: Resource) -> Answer:
        """Return the index; raises Refused `route_not_found` for a client that does not want HTML.

        A share link is pasted into chats, and opened by their previews and by checks that take anything (`*/*`, HEAD,
        no header at all). The root is for who names text/html: a program that was given it for the API's address is
        told where the API is.
        """
        given = request.headers.getall(hdrs.ACCEPT, ())
        root = resource.id_text == "/"
        if not (accepts(given, _MEDIA) if root else takes(given, _MEDIA)):
            raise Refused("route_not_found", "there is nothing at this path but a page for browsers; see /docs")
        return (self._root if root else self._shared).answer(request)

    async def asset(self, request: Request, resource: Resource) -> Answer:
        """Return a file."""
        return self._assets[resource.id_text].answer(request)


def _etag(body: bytes, headers: Mapping[str, str]) -> str:
    """Return an ETag that changes with the policy, too: a 304 does not bring a new one."""
    return sha256(b"%b%r" % (body, sorted(headers.items()))).hexdigest()[:HASH_CHARS]
