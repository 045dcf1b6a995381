"""Answers that caches may keep: their Cache-Control is their own, and the client's copy may be enough."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from aiohttp import hdrs

from gateway.http.answer import Answer, date_now
from gateway.http.request import Request
from gateway.site.files import File

IMMUTABLE: Final = "public, max-age=31536000, immutable"
"""Of a file whose name changes with its content."""
REVALIDATE: Final = "no-cache"
"""Of the index: it may be kept, and is asked for each time."""
_GZIP: Final = "gzip"


class CachedAnswer(Answer):
    """An answer without the `no-store` that every answer of the API has."""

    def encode(self, request: Request, *, keep_alive: bool) -> bytes:
        """Return head and body as they are sent; no body for HEAD."""
        return b"HTTP/1.1 %d %b\r\n%bDate: %b\r\nX-Request-Id: %b\r\n%b\r\n%b" % (
            self.status,
            HTTPStatus(self.status).phrase.encode(),
            self.headers if keep_alive and not request.http_1_0 else self._connection(keep_alive=keep_alive),
            date_now().encode(),
            self.request_id,
            # A 304 says nothing of a body that it does not have (RFC 9110, 15.4.5).
            b"" if self.status == HTTPStatus.NOT_MODIFIED else b"Content-Length: %d\r\n" % len(self.body),
            self.body if request.method != hdrs.METH_HEAD else b"",
        )


class Representation(msgspec.Struct, frozen=True):
    """One form of a file, plain or compressed, with its headers as they are sent."""

    body: bytes
    etag: str
    headers: bytes
    """Of a 200."""
    unchanged: bytes
    """Of a 304."""


class Held(msgspec.Struct, frozen=True):
    """A file in both its forms."""

    plain: Representation
    gzipped: Representation

    def answer(self, request: Request) -> CachedAnswer:
        """Return the file, or that the client's copy is right (`If-None-Match`)."""
        given = request.headers
        form = self.gzipped if accepts(given.getall(hdrs.ACCEPT_ENCODING, ()), _GZIP) else self.plain
        if _matches(given.getall(hdrs.IF_NONE_MATCH, ()), (self.plain.etag, self.gzipped.etag)):
            return CachedAnswer(HTTPStatus.NOT_MODIFIED, b"", headers=form.unchanged)
        return CachedAnswer(HTTPStatus.OK, form.body, headers=form.headers)


def hold(file: File, cache_control: str, *, vary: str = hdrs.ACCEPT_ENCODING, more: Mapping[str, str]) -> Held:
    """Prepare the answers of a file."""

    def form(body: bytes, encoding: str) -> Representation:
        # Two forms are two representations: each has an ETag of its own (RFC 9110, 8.8.3.3).
        etag = f'"{file.etag}{"-" if encoding else ""}{encoding}"'
        both = {"ETag": etag, "Cache-Control": cache_control, "Vary": vary}
        full = {"Content-Type": file.content_type, **({"Content-Encoding": encoding} if encoding else {}), **both}
        return Representation(body, etag, _lines({**full, "X-Content-Type-Options": "nosniff", **more}), _lines(both))

    plain = form(file.body, "")
    return Held(plain, form(file.gzipped, _GZIP) if file.gzipped is not file.body else plain)


def accepts(headers: list[str] | tuple[str, ...], wanted: str) -> bool:
    """Say whether a list such as `Accept` names `wanted` itself, and does not give it the weight 0."""
    return _named(headers, wanted) is True


def takes(headers: list[str] | tuple[str, ...], media: str) -> bool:
    """Say whether a client whose `Accept` this is takes `media`, by name or as one of a range (RFC 9110, 12.5.1).

    Without the header it takes anything.
    """
    if not any(one.strip() for one in headers):
        return True
    of_all = (media, f"{media.partition('/')[0]}/*", "*/*")
    # The most specific range counts: `text/html;q=0, */*` is anything but HTML.
    said = (_named(headers, one) for one in of_all)
    return next((one for one in said if one is not None), False)


def _named(headers: list[str] | tuple[str, ...], wanted: str) -> bool | None:
    """Say whether what a list names has a weight above 0; None if it does not name it."""
    for one in ",".join(headers).lower().split(","):
        name, _, rest = one.partition(";")
        if name.strip() == wanted:
            weight = rest.strip().removeprefix("q=")
            return weight.strip("0.") != "" or not rest.strip().startswith("q=")
    return None


def _matches(headers: list[str] | tuple[str, ...], etags: tuple[str, ...]) -> bool:
    """Compare weakly (RFC 9110, 13.1.2): a proxy that compresses makes a weak ETag of ours."""
    given = [one.strip().removeprefix("W/") for one in ",".join(headers).split(",")]
    return any(one == "*" or one in etags for one in given)


def _lines(headers: Mapping[str, str]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
