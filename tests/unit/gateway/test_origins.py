"""HONGBAO_CORS_ORIGINS: which settings are taken, and which lines an answer gets for whom."""

import pytest
from multidict import CIMultiDict

from errors import Refused
from gateway.http.origins import Origins

CHAT = "https://chat.example"
OWN = Origins(f"{CHAT}, http://127.0.0.1:5173,capacitor://localhost,http://[::1]:80{80 // 10}")


def lines(*origins: str, name: str = "Origin") -> bytes:
    return OWN.lines(CIMultiDict((name, one) for one in origins))


def raw(head: str) -> bytes:
    return OWN.lines_in(f"GET /v1/me/wallet HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode("latin-1"))


@pytest.mark.parametrize("origin", [CHAT, "http://127.0.0.1:5173", "capacitor://localhost", "http://[::1]:808"])
def test_an_origin_that_is_named(origin):
    """It may read the answer and its headers, parsed or not."""
    for found in (
        lines(origin),
        lines(origin, name="origin"),
        raw(f"Origin: {origin}\r\n"),
        raw(f"oRIGIN:{origin}\r\n"),
    ):
        assert f"Access-Control-Allow-Origin: {origin}\r\n".encode() in found
        assert b"Access-Control-Expose-Headers: X-Request-Id, Retry-After, Idempotency-Replayed, ETag\r\n" in found
        assert b"\r\nVary: Origin\r\n" in found
        assert b"Credentials" not in found


@pytest.mark.parametrize(
    "origin",
    [
        *("https://chat.example.evil", "https://evil-chat.example", "http://chat.example", "https://chat.example:8443"),
        *(
            "https://chat.example/",
            "HTTPS://chat.example",
            "https://CHAT.example",
            "null",
            "*",
            "",
            "https://x.chat.example",
        ),
    ],
)
def test_an_origin_that_is_not(origin):
    """It hears only that the answer depends on it."""
    assert lines(origin) == raw(f"Origin: {origin}\r\n") == b"Vary: Origin\r\n"


def test_none_or_two_or_in_the_body():
    """Without an origin, with two, or with one in a body there is nothing to allow."""
    assert lines() == lines(CHAT, CHAT) == b"Vary: Origin\r\n"
    assert raw("") == raw(f"Origin: {CHAT}\r\nOrigin: {CHAT}\r\n") == b"Vary: Origin\r\n"
    assert raw(f"\r\nOrigin: {CHAT}\r\n") == b"Vary: Origin\r\n"
    assert OWN.lines_in(b"\xff\r\n") == OWN.lines_in(b"") == b"Vary: Origin\r\n"


@pytest.mark.parametrize(
    ("setting", "word"),
    [
        ("*", "name each origin"),
        (f"{CHAT},*", "name each origin"),
        ("https://*.example", "no origin like"),
        ("chat.example", "no origin like"),
        (f"{CHAT}/", "no origin like"),
        (f"{CHAT}/page", "no origin like"),
        ("https://Chat.example", "no origin like"),
        ("https://chat.example:0", "no origin like"),
        ("https://chat..example", "no origin like"),
        ("https://chat.example\r\nX: y", "no origin like"),
        ("https://", "no origin like"),
        ("null", "no origin like"),
        (f"{CHAT} https://other.example", "no origin like"),
        ("https://user@chat.example", "no origin like"),
        ("https://chat.example:443", "write https://chat.example"),
        ("http://chat.example:80", "write http://chat.example"),
        (",".join(f"https://c{number}.example" for number in range(101)), "at most 100"),
    ],
)
def test_settings_that_are_refused(setting, word):
    """What could never match, or would allow everybody, is refused with a sentence."""
    with pytest.raises(Refused) as refused:
        Origins(setting)
    assert refused.value.code == "settings_invalid"
    assert refused.value.detail.startswith("HONGBAO_CORS_ORIGINS: ")
    assert word in refused.value.detail


def test_none_is_none():
    """Without a setting there are no origins."""
    assert not Origins("")
    assert not Origins(" , ")
    assert OWN
