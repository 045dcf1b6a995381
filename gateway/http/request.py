"""One HTTP request as the handlers see it: what aiohttp's parser found, without the maps that they do not ask for."""

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import hdrs
from aiohttp.streams import EMPTY_PAYLOAD

if TYPE_CHECKING:
    from aiohttp.streams import StreamReader
    from multidict import CIMultiDictProxy
    from yarl import URL

MISSING_LENGTH: Final = -1


class Request(msgspec.Struct, eq=False):
    """The parsed head, and the body as far as it has come.

    `web.BaseRequest` holds a dozen things more for frameworks to build upon; making it cost 2 µs a request.
    """

    method: str
    raw_path: str
    headers: "CIMultiDictProxy[str]"
    content: "StreamReader"
    keep_alive: bool
    transport: asyncio.Transport | None
    message: Any
    """What the parser made of the head."""

    def __repr__(self) -> str:
        """Say nothing of headers and target: tokens are in them, and a log may print what it is given."""
        return f"Request({self.method})"

    @property
    def empty(self) -> bool:
        """Whether there is no body and none will come."""
        return self.content is EMPTY_PAYLOAD

    @property
    def url(self) -> "URL":
        """The target of the request, mostly without a host."""
        url: URL = self.message.url
        return url

    @property
    def old(self) -> bool:
        """Whether this is HTTP/1.0, where a connection ends unless both sides say otherwise."""
        return not self.message.version.minor

    @property
    def content_length(self) -> int:
        """The length that was announced, -1 if none was. The parser has refused what is no number."""
        length = self.headers.get(hdrs.CONTENT_LENGTH)
        return MISSING_LENGTH if length is None else int(length)

    def _cancel(self, exc: BaseException) -> None:
        """Wake who waits for the rest of the body: it will not come (called by aiohttp: client gone, or we stop)."""
        ours = isinstance(exc, ConnectionError | asyncio.CancelledError)
        # Whatever the system calls it, the client has gone.
        self.content.set_exception(exc if ours else ConnectionResetError(str(exc)))

    def whole_body(self) -> bytes | None:
        """Return the body if all of it is here, empty if there is none; None while more has to come.

        It stays where it is. Read straight from aiohttp's buffer: its own way through `readany` wakes the parser each
        time and costs as much as the rest of the request (4 of 27 µs).
        """
        content = self.content
        if content is EMPTY_PAYLOAD:
            return b""
        if not content.is_eof():
            return None
        chunks = content._buffer  # noqa: SLF001 - see `gateway.connection` on aiohttp's names
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)
