"""One HTTP request as the handlers see it: what aiohttp's parser found, without objects that no handler needs."""

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import hdrs
from aiohttp.streams import EMPTY_PAYLOAD

from errors import Refused
from gateway.http.aiohttp_private import chunks_of

if TYPE_CHECKING:
    from aiohttp.streams import StreamReader
    from multidict import CIMultiDictProxy
    from yarl import URL

MISSING_LENGTH: Final = -1


class Request(msgspec.Struct, eq=False):
    """The parsed head, and the body as far as it has arrived. Cheaper to make than aiohttp's `web.BaseRequest`."""

    method: str
    raw_path: str
    headers: "CIMultiDictProxy[str]"
    content: "StreamReader"
    keep_alive: bool
    transport: asyncio.Transport | None
    message: Any
    """The head as aiohttp's parser returned it, or `aiohttp_private.MALFORMED`."""

    def __repr__(self) -> str:
        """Leave headers and target out: they hold tokens, and requests are logged."""
        return f"Request({self.method})"

    @property
    def empty(self) -> bool:
        """Whether the request has no body."""
        return self.content is EMPTY_PAYLOAD

    @property
    def url(self) -> "URL":
        """The request target, parsed; it has a host only in the absolute form (`GET http://host/path`)."""
        url: URL = self.message.url
        return url

    @property
    def http_1_0(self) -> bool:
        """Whether this is HTTP/1.0, where a connection ends unless both sides ask to keep it."""
        return not self.message.version.minor

    @property
    def content_length(self) -> int:
        """The Content-Length, -1 if there is none. The parser has refused one that is no number."""
        length = self.headers.get(hdrs.CONTENT_LENGTH)
        return MISSING_LENGTH if length is None else int(length)

    @property
    def authorization(self) -> str | None:
        """The header `Authorization`; raises Refused `malformed_http` if it is there twice.

        A proxy before us may have looked at the other one.
        """
        given = self.headers.getall(hdrs.AUTHORIZATION, ())
        if len(given) > 1:
            raise Refused("malformed_http", "the header Authorization is there twice; send one")
        return given[0] if given else None

    def _cancel(self, exc: BaseException) -> None:
        """Fail the read of the rest of the body. aiohttp calls it when the client has gone or the process stops."""
        known = isinstance(exc, ConnectionError | asyncio.CancelledError)
        # Whatever else aiohttp reports, the client has gone: a handler expects ConnectionError for that.
        self.content.set_exception(exc if known else ConnectionResetError(str(exc)))

    def whole_body(self) -> bytes | None:
        """Return the body if all of it has arrived, empty if there is none; None while more must come.

        The body is read from aiohttp's buffer and stays there, so this may be called again. `readany` would wake the
        parser each time, at a noticeable part of a request's cost (docs/performance/notebook.md).
        """
        content = self.content
        if content is EMPTY_PAYLOAD:
            return b""
        if not content.is_eof():
            return None
        chunks = chunks_of(content)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)
