"""The routes of the API: one list, read by the dispatcher, the OpenAPI document and the tests.

The page for people is no part of it: `gateway.site` has the paths that no route has.
"""

from typing import Final, NamedTuple
from urllib.parse import unquote


class Route(NamedTuple):
    """`name` is the operationId and the label in metrics; a template has at most the one parameter `{id}`."""

    method: str
    template: str
    name: str


ROUTES: Final = (
    Route("POST", "/v1/envelopes", "createEnvelope"),
    Route("GET", "/v1/envelopes/{id}", "getEnvelope"),
    Route("POST", "/v1/envelopes/{id}/open", "openEnvelope"),
    Route("POST", "/v1/envelopes/{id}/grab", "grabEnvelope"),
    Route("POST", "/v1/envelopes/{id}/cancel", "cancelEnvelope"),
    Route("GET", "/v1/live", "watchEnvelopes"),
    Route("GET", "/v1/me/wallet", "getWallet"),
    Route("GET", "/v1/me/wallet/entries", "listWalletEntries"),
    Route("GET", "/v1/me/envelopes", "listMyEnvelopes"),
    Route("GET", "/v1/play", "listPlayUsers"),
    Route("POST", "/v1/play/token", "makePlayToken"),
    Route("GET", "/v1/me/totals", "getTotals"),
    Route("GET", "/openapi.json", "getOpenApi"),
    Route("GET", "/docs", "getDocs"),
    Route("GET", "/healthz", "getHealth"),
    Route("GET", "/readyz", "getReadiness"),
    Route("GET", "/metrics", "getMetrics"),
)

PREFLIGHT: Final = "preflight"
"""The operation of OPTIONS at every path, where pages of other origins may call; the document does not list it."""
NO_ROUTE: Final = "none"
"""The label of requests to other paths; one for all, because clients could make up any number of paths."""

METHODS: Final[dict[str, dict[str, str]]] = {}
"""Template -> method -> operation name. Every GET answers HEAD, too."""
for _route in ROUTES:
    METHODS.setdefault(_route.template, {})[_route.method] = _route.name
    if _route.method == "GET":
        METHODS[_route.template]["HEAD"] = _route.name

_PREFIX: Final = "/v1/envelopes/"
_AFTER_PREFIX: Final = len(_PREFIX)
_BELOW_ID: Final = {
    template.partition("{id}")[2].removeprefix("/"): template for template in METHODS if "{id}" in template
}


def resolve(path: str) -> tuple[str, str] | None:
    """Return the template that a path fits, and the `{id}` in it with escapes undone; None if it fits none.

    `path` is the raw path without the query. The ID is whatever text stands there; nothing is checked.
    """
    if path.startswith(_PREFIX):
        text, slash, verb = path[_AFTER_PREFIX:].partition("/")
        template = _BELOW_ID.get(verb or slash)
        if template is None or not text:
            return None
        return template, text if "%" not in text else unquote(text, errors="replace")
    return (path, "") if path in METHODS and "{" not in path else None
