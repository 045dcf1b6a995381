"""The stream as bytes, in whatever pieces they come."""

import pytest

from client import live
from client.live import Event, EventReader

TEXT = (
    b': hello\r\nevent: envelope\rid: 7\ndata: {"a":\r\ndata: 1}\r\n\r\n: ping\n\ndata\n\n'
    b"retry: 250\n\nretry: soon\n\ndata:x\n\nevent: gone\n\n"
)
EVENTS = [
    Event("envelope", b'{"a":\n1}', "7", None),
    Event("message", b"", "", None),
    Event("message", b"", "", 250),
    Event("message", b"x", "", None),
]


def read(*pieces: bytes) -> list[Event]:
    reader = EventReader()
    return [event for piece in pieces for event in reader.feed(piece)]


def test_events_are_read_in_whatever_pieces() -> None:
    """Cut at every place, and byte by byte."""
    for at in range(len(TEXT) + 1):
        assert read(TEXT[:at], TEXT[at:]) == EVENTS
    assert read(*(TEXT[at : at + 1] for at in range(len(TEXT)))) == EVENTS


def test_an_event_without_an_end_is_no_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would fill the memory."""
    monkeypatch.setattr(live, "MOST_EVENT_BYTES", 100)
    with pytest.raises(ValueError, match="more than 100 bytes"):
        read(b"data: " + b"x" * 101)
    with pytest.raises(ValueError, match="more than 100 bytes"):
        read(*[b"data: x\n"] * 20)
