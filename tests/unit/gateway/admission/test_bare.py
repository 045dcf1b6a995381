"""What is refused unread must be exactly what the parser would have found: one whole request without a body."""

import asyncio
from typing import Any

import pytest
from aiohttp.http import HttpRequestParser
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import EMPTY_PAYLOAD
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.admission.bare import look
from gateway.admission.priority import Class, Promises

OPEN = (
    b"POST /v1/envelopes/2611260000000001024/open HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer abc\r\n"
    b"X-Share-Token: t\r\nContent-Length: 0\r\n\r\n"
)


PROMISES = Promises(lambda: 0.0)


def plain(data: bytes) -> tuple[Class, bytes] | None:
    bare = look(data)
    if bare is None:
        return None
    assert bare.size == len(data)
    return PROMISES.class_of(bare.method, bare.path, bare.asker), bare.asker


def test_the_usual_requests() -> None:
    """An open, a grab, a view and a list, with or without a Content-Length, in any case of the names."""
    assert plain(OPEN) == (Class.OPEN, b"Bearer abc")
    assert plain(OPEN.replace(b"Content-Length: 0\r\n", b"")) == (Class.OPEN, b"Bearer abc")
    assert plain(OPEN.replace(b"Authorization", b"authorization")) == (Class.OPEN, b"Bearer abc")
    assert plain(OPEN.replace(b"/open", b"/grab")) == (Class.GRAB, b"Bearer abc")
    assert plain(b"GET /v1/me/wallet HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer z\r\n\r\n") == (
        Class.VIEW,
        b"Bearer z",
    )


@pytest.mark.parametrize(
    "data",
    [
        OPEN[:-2],
        OPEN + OPEN,
        OPEN + b"G",
        OPEN.replace(b"Content-Length: 0", b"Content-Length: 5"),
        OPEN.replace(b"Content-Length: 0", b"Content-Length: 00"),
        OPEN.replace(b"Content-Length: 0", b"Content-Length: 0\r\nContent-Length: 0"),
        OPEN.replace(b"Content-Length: 0", b"Content-Length : 0"),
        OPEN.replace(b"Content-Length: 0", b"Transfer-Encoding: chunked"),
        OPEN.replace(b"Host: x", b"Host: x\r\nConnection: close"),
        OPEN.replace(b"Host: x", b"Host: x\r\nUpgrade: h2c"),
        OPEN.replace(b"Host: x", b"Expect: 100-continue"),
        OPEN.replace(b"Host: x\r\n", b"Host: x\n"),
        OPEN.replace(b"Host: x\r\n", b"Host: x\n\nGET /v1/me/wallet HTTP/1.1\r\n"),
        OPEN.replace(b"HTTP/1.1", b"HTTP/1.0"),
        OPEN.replace(b"Authorization", b"Authorisation"),
        OPEN.replace(b"Bearer abc", b"Bearer " + b"x" * 5_000),
        OPEN.replace(b"open HTTP", b"op\xc3\xa4n HTTP"),
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer z\r\n\r\n",
        b"HEAD /v1/me/wallet HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer z\r\n\r\n",
        b"",
    ],
)
def test_everything_else_goes_to_the_parser(data: bytes) -> None:
    """Bodies, more or less than one request, ends of connections, other versions, what is never refused."""
    assert plain(data) is None


PIECES = st.sampled_from(
    [
        *(b"POST /v1/envelopes/1/open HTTP/1.1\r\n", b"GET /v1/me/wallet HTTP/1.1\r\n", b"Authorization: Bearer a\r\n"),
        *(b"Content-Length: 0\r\n", b"content-length: 0\r\n", b"Content-Length: 1\r\n", b"Content-Length:0\r\n"),
        *(b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"Connection: keep-alive\r\n"),
        *(b"Host: x\r\n", b"X: \x00\r\n", b"X: y\r\n", b"\tfolded\r\n", b"Trailer: X\r\n", b"Upgrade: a\r\n"),
        *(b"\r\n", b"\n", b" ", b"A", b":", b"0\r\n", b"\x80"),
    ]
)


class Protocol:
    """As little of a connection as the parser needs."""

    def __getattr__(self, _: str) -> Any:
        return lambda *_, **__: None


@given(st.lists(PIECES, max_size=9).map(b"".join))
@example(OPEN)
def test_what_is_refused_unread_is_one_request_for_the_parser(data: bytes) -> None:
    """Whatever is looked at and understood, the parser reads as one request, whole, without a body, that keeps alive.

    If the parser refuses it, nothing was promised either: it would have been answered with 400.
    """
    if look(data) is None:
        return
    loop = asyncio.new_event_loop()
    try:
        parser = HttpRequestParser(Protocol(), loop, 2**16)  # type: ignore[arg-type]
        try:
            messages, upgraded, tail = parser.feed_data(data)
        except HttpProcessingError:
            return
        assert (len(messages), upgraded, tail) == (1, False, b"")
        head, payload = messages[0]
        assert payload is EMPTY_PAYLOAD
        assert not head.should_close
        assert not head.chunked
        assert tuple(head.version) == (1, 1)
    finally:
        loop.close()
