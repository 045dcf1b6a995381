"""Reads just enough of raw bytes to refuse them: a look at a request's line and headers without parsing them.

While too many people come, most of what the gateway does is to say no. Parsing a head costs as much as all the rest of
a refusal, so requests that may be refused are first looked at here. What is not plainly one whole request without a
body, in the form in which clients send it, goes to the parser and may be refused behind it.
"""

from typing import Final

import msgspec

from gateway.limits import HEADER_BYTES

_VERSION: Final = b" HTTP/1.1\r\n"
_END: Final = b"\r\n\r\n"
_METHODS: Final = (b"POST /v1/", b"GET /v1/")
_FRAMING: Final = (b"transfer-encoding", b"connection", b"upgrade", b"expect", b"trailer")
"""Header names (or parts of any header) with which the parser decides: they say how the request or connection ends."""
_LENGTH: Final = b"content-length"
_NO_BODY: Final = b"\r\ncontent-length: 0\r\n"
_ASKER: Final = b"\r\nauthorization: "
_TIMEOUT: Final = b"\r\nx-request-timeout-ms: "
_LINE: Final = 200


class Bare(msgspec.Struct, frozen=True, gc=False):
    """What a refusal needs of a request; `asker` is its `Authorization` header, `size` its length in bytes."""

    method: str
    path: str
    asker: bytes
    timeout_ms: bytes
    """Its `X-Request-Timeout-Ms`, empty if it has none."""
    size: int


def look(data: bytes) -> Bare | None:
    """Return what `data` is, if it is exactly one request of a known user, without a body; else None."""
    if not data.startswith(_METHODS) or data.find(_END) != len(data) - len(_END):
        return None
    method, _, rest = data[:_LINE].partition(b" ")
    path, version, _ = rest.partition(_VERSION)
    # A lone line feed may end a line for one reader and not for another.
    if not version or not path.isascii() or data.count(b"\n") != data.count(b"\r\n"):
        return None
    low = data.lower()
    # `find`, for `in` takes the bytes for a number first, and raises and drops an error each time.
    find = low.find
    for name in _FRAMING:
        if find(name) >= 0:
            return None
    length = find(_LENGTH)
    if length >= 0 and (find(_LENGTH, length + 1) >= 0 or find(_NO_BODY) < 0):
        return None
    begin = find(_ASKER)
    if begin < 0:
        return None
    asker = data[begin + len(_ASKER) : data.find(b"\r", begin + len(_ASKER))]
    if len(asker) > HEADER_BYTES:
        return None
    timeout = find(_TIMEOUT) + len(_TIMEOUT)
    timeout_ms = low[timeout : find(b"\r", timeout)] if timeout >= len(_TIMEOUT) else b""
    return Bare(method.decode(), path.decode(), asker, timeout_ms, len(data))
