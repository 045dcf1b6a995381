"""The routes: one list, read by the dispatcher, by the OpenAPI document and by the tests."""

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
    Route("GET", "/v1/me/wallet", "getWallet"),
    Route("GET", "/v1/me/wallet/entries", "listWalletEntries"),
    Route("GET", "/v1/me/envelopes", "listMyEnvelopes"),
    Route("GET", "/openapi.json", "getOpenApi"),
    Route("GET", "/docs", "getDocs"),
    Route("GET", "/healthz", "getHealth"),
    Route("GET", "/readyz", "getReadiness"),
    Route("GET", "/metrics", "getMetrics"),
)

NO_ROUTE: Final = "none"
"""What requests to other paths are counted as: their number is bounded by nothing."""

_PREFIX: Final = "/v1/envelopes/"
_AFTER_PREFIX: Final = len(_PREFIX)

_by_template: dict[str, dict[str, str]] = {}
for _route in ROUTES:
    _by_template.setdefault(_route.template, {})[_route.method] = _route.name
    if _route.method == "GET":
        _by_template[_route.template]["HEAD"] = _route.name

_STATIC: Final = {template: names for template, names in _by_template.items() if "{" not in template}
_BELOW_ID: Final = {
    template.partition("{id}")[2].removeprefix("/"): names
    for template, names in _by_template.items()
    if "{id}" in template
}


def resolve(path: str) -> tuple[dict[str, str], str] | None:
    """Return the names by method of the path's resource, and the `{id}` in it as the client wrote it; None: no such.

    `path` is the raw path without the query. No regular expression: this stands in the way of every open.
    """
    if path.startswith(_PREFIX):
        text, slash, verb = path[_AFTER_PREFIX:].partition("/")
        names = _BELOW_ID.get(verb or slash)
        if names is None or not text:
            return None
        return names, text if "%" not in text else unquote(text, errors="replace")
    names = _STATIC.get(path)
    return None if names is None else (names, "")
