"""Step 3 of a request: what its path names. Cached by path, because many requests name the same envelope."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from errors import Refused
from gateway.http.answer import Answer
from gateway.http.request import Request
from gateway.limits import PATH_CACHE, PATH_CHARS
from gateway.routes import METHODS, PREFLIGHT, resolve
from gateway.sets.target import Target

Handler = Callable[[Request, "Resource"], Awaitable[Answer]]
"""Answers one operation; raises a HongbaoError for each answer that is a problem."""


Operations = Mapping[str, tuple[str, Handler]]
"""By method: the operation's name, and what answers it."""
Elsewhere = Callable[[str], Operations | None]
"""Finds the operations of a path that is no route of the API: the page for people (`gateway.site`)."""


@dataclass(slots=True, eq=False)
class Resource:
    """What one path names: its operations by method, and the envelope whose ID stands in it, if any.

    `id_text` of what is elsewhere is the whole path.

    `target` is None until a handler has found the user and read the ID: the token is checked first, whatever the ID.
    Then it stays valid for ever, except for its link, which `gateway.sets` renews.
    """

    operations: Operations
    id_text: str = ""
    target: Target | None = None
    shared: bool = False
    """Whether a share ID stands in the path: then the request needs no share token."""

    @property
    def methods(self) -> list[str]:
        """The methods that this path has, in alphabetical order."""
        return sorted(self.operations)


class Resources:
    """Finds the resource of a request. The PATH_CACHE paths asked for last are remembered."""

    def __init__(self, handlers: Mapping[str, Handler], elsewhere: Elsewhere) -> None:
        """`elsewhere` is asked for paths that no route has."""
        self._elsewhere = elsewhere
        self._operations = {
            template: {method: (name, handlers[name]) for method, name in names.items() if name in handlers}
            for template, names in METHODS.items()
        }
        if PREFLIGHT in handlers:
            for operations in self._operations.values():
                operations["OPTIONS"] = PREFLIGHT, handlers[PREFLIGHT]
        self._remembered = lru_cache(maxsize=PATH_CACHE)(self._find)

    def of(self, request: Request) -> Resource:
        """Return the resource that the request names; raises Refused `route_not_found`."""
        path = request.raw_path
        if len(path) <= PATH_CHARS and path[:1] == "/" and "?" not in path:
            return self._remembered(path)
        # Not remembered: a query may differ each time, and what the absolute form means depends on the method.
        return self._find(path.partition("?")[0] if path[:1] == "/" else request.url.raw_path)

    def _find(self, path: str) -> Resource:
        template, id_text = resolve(path) or ("", "")
        operations: Operations | None = self._operations.get(template)
        if not operations:
            operations, id_text = self._elsewhere(path), path
        if not operations:
            raise Refused("route_not_found", "there is nothing at this path; see /docs")
        return Resource(operations, id_text)
