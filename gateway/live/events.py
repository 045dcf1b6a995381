"""Server-sent events as bytes (WHATWG HTML, 9.2): no value that is written here contains a line feed."""

from http import HTTPStatus
from typing import Final

from gateway.http.answer import encode_json, head_of

EVENT_STREAM: Final = "text/event-stream"
BEAT: Final = b":\n\n"
"""A comment: keeps proxies from ending a stream on which nothing happens."""
# The body ends with the connection, so that every watcher of an envelope gets the same bytes, without a length.
_HEAD: Final = b"%bX-Accel-Buffering: no\r\nConnection: close\r\n%b\r\nretry: %d\n\n"


def head(headers: bytes, retry_ms: int) -> bytes:
    """Return the head of a stream, with these lines in it, and how long a client waits before it connects again."""
    return _HEAD % (head_of(HTTPStatus.OK, EVENT_STREAM), headers, retry_ms)


def envelope_event(envelope_id: int, frame: bytes, version: str) -> bytes:
    """Return the event of a frame; its ID is that of what it shows (`version_id`)."""
    return b"event: envelope\nid: %b\ndata: %b\n\n" % (version_id(envelope_id, version).encode(), frame)


def version_id(envelope_id: int, version: str) -> str:
    """Return the event ID of a version of an envelope: a client that had it need not be sent it again."""
    return f"{envelope_id}.{version}"


def refused_event(envelope: str, code: str, detail: str) -> bytes:
    """Return the event that says why one of several envelopes is not watched."""
    return b"event: refused\ndata: %b\n\n" % encode_json({"envelope": envelope, "code": code, "detail": detail})


def end_event(reason: str, retry_ms: int) -> bytes:
    """Return the event that ends a stream: why, and when to come back."""
    return b"event: end\nretry: %d\ndata: %b\n\n" % (retry_ms, encode_json({"reason": reason}))
