"""Pages of other origins (CORS): which may call this gateway, and the header lines that tell their browsers so.

Only exact origins that an operator has named (HONGBAO_CORS_ORIGINS). No answer depends on cookies, so none allows
credentials: a page sends the bearer token itself.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from errors import Refused
from gateway.limits import ORIGINS, PREFLIGHT_S

ORIGIN: Final = "Origin"
ASKED_METHOD: Final = "Access-Control-Request-Method"
EXPOSED: Final = ("X-Request-Id", "Retry-After", "Idempotency-Replayed", "ETag")
"""Headers of answers that a page of another origin may read."""
SENT: Final = (
    "Authorization", "Content-Type", "Idempotency-Key", "If-None-Match", "X-Request-Id", "X-Request-Timeout-Ms",
    "X-Share-Token",
)  # fmt: skip
"""Headers of requests that such a page may send."""
_VARY: Final = b"Vary: Origin\r\n"
_LINE: Final = b"\r\norigin:"
_is_origin = re.compile(
    r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9_-]+(\.[a-z0-9_-]+)*)(:[1-9][0-9]{0,4})?"
).fullmatch


class Origins:
    """The origins of one setting: as browsers send them, with commas between. Raises Refused `settings_invalid`."""

    def __init__(self, setting: str) -> None:
        named = [one for text in setting.split(",") if (one := text.strip())]
        if len(named) > ORIGINS:
            raise _invalid(f"names {len(named)} origins; at most {ORIGINS} are taken")
        self._lines = {check_origin(one): _allow(one) for one in named}

    def __bool__(self) -> bool:
        """Whether any origin is allowed."""
        return bool(self._lines)

    def allows(self, headers: Any) -> bool:
        """Say whether a request comes from a page of an origin that is allowed."""
        return self.lines(headers) is not _VARY

    def lines(self, headers: Any) -> bytes:
        """Return the header lines of an answer to a request with these headers."""
        given = headers.getall(ORIGIN, ())
        return self._lines.get(given[0], _VARY) if len(given) == 1 else _VARY

    def lines_in(self, data: bytes) -> bytes:
        """Return the same for a request that was not parsed."""
        low = data.partition(b"\r\n\r\n")[0].lower() + b"\r\n"
        begin = low.find(_LINE)
        if begin < 0 or low.find(_LINE, begin + 1) >= 0:
            return _VARY
        begin += len(_LINE)
        # The bytes as they came: an origin is compared exactly.
        return self._lines.get(data[begin : low.index(b"\r", begin)].decode("latin-1").strip(), _VARY)


def check_origin(text: str) -> str:
    """Return an origin; raises Refused `settings_invalid` with what is wrong with it."""
    if text == "*":
        raise _invalid("'*' would let the page of any origin call as whoever it has a token of; name each origin")
    if _is_origin(text) is None:
        raise _invalid(
            f"{text[:100]!r} is no origin like https://chat.example:8443, as browsers send it, without a path"
        )
    scheme, _, rest = text.partition("://")
    host, _, port = rest.rpartition(":")
    if host and not port.endswith("]") and (scheme, port) in (("http", "80"), ("https", "443")):
        raise _invalid(f"{text!r}: browsers leave the scheme's own port out; write {scheme}://{host}")
    return text


def preflight_lines(methods: Sequence[str]) -> bytes:
    """Return the header lines that answer a browser's question what it may send; `methods` are those of the path."""
    return (
        f"Access-Control-Allow-Methods: {', '.join(methods)}\r\n"
        f"Access-Control-Allow-Headers: {', '.join(SENT)}\r\n"
        f"Access-Control-Max-Age: {PREFLIGHT_S}\r\n"
    ).encode()


def _allow(origin: str) -> bytes:
    exposed = ", ".join(EXPOSED)
    return f"Access-Control-Allow-Origin: {origin}\r\nAccess-Control-Expose-Headers: {exposed}\r\n".encode() + _VARY


def _invalid(sentence: str) -> Refused:
    return Refused("settings_invalid", f"HONGBAO_CORS_ORIGINS: {sentence}")
