"""Pages of other origins: what a browser is told before and after, at every door at which an answer may come."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import msgspec
import pytest

from gateway.admission.threshold import Threshold
from gateway.connection import Connection
from gateway.limits import PLACES
from gateway.newcomers import Newcomer
from gateway.service import Gateway
from gateway.service import running as running_gateway
from tests.integration.gateway.fixtures import Door, door, silent, some_id
from tests.integration.gateway.test_admission import connected

__all__ = ["door"]

CHAT, OTHER = "https://chat.example", "https://other.example"
ALLOW = "Access-Control-Allow-Origin"


@contextlib.asynccontextmanager
async def opened_to(door: Door, origins: str, **settings: object) -> AsyncIterator[Gateway]:
    changed = msgspec.structs.replace(door.gateway.settings, cors_origins=origins, **settings)
    async with running_gateway(changed) as gateway:
        door.url = f"http://127.0.0.1:{gateway.port}"
        await door.until_ready()
        yield gateway


async def ask(
    door: Door, method: str, path: str, user: str | None = "bob", **headers: str
) -> tuple[int, dict[str, str]]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if user:
        sent["Authorization"] = f"Bearer {door.token(user)}"
    async with door.session.request(method, door.url + path, headers=sent) as answer:
        await answer.read()
        return answer.status, dict(answer.headers)


async def test_a_preflight_is_answered(door: Door) -> None:
    """204 with what may be sent, for each path its methods, without a token, without a call to any SET."""
    async with opened_to(door, CHAT):
        for path, methods in (
            (f"/v1/envelopes/{some_id()}/open", "OPTIONS, POST"),
            ("/v1/envelopes", "OPTIONS, POST"),
            ("/v1/me/envelopes?role=sent", "GET, HEAD, OPTIONS"),
        ):
            status, headers = await ask(
                door, "OPTIONS", path, None, Origin=CHAT, Access_Control_Request_Method="POST",
                Access_Control_Request_Headers="authorization,idempotency-key",
            )  # fmt: skip
            assert (status, headers[ALLOW], headers["Vary"]) == (204, CHAT, "Origin")
            assert headers["Access-Control-Allow-Methods"] == methods
            assert {"Authorization", "Idempotency-Key", "X-Share-Token", "If-None-Match"} <= set(
                headers["Access-Control-Allow-Headers"].split(", ")
            )
            assert int(headers["Access-Control-Max-Age"]) > 0
            assert "Content-Length" not in headers
        assert not any(peer.asked for peer in (*door.servers.values(), door.wallet))


async def test_what_is_no_preflight_of_ours(door: Door) -> None:
    """Another origin, none, or OPTIONS without the question: 405 as before, and nothing is allowed."""
    async with opened_to(door, CHAT):
        path = "/v1/envelopes"
        for headers in (
            {"Origin": OTHER, "Access_Control_Request_Method": "POST"},
            {"Access_Control_Request_Method": "POST"},
            {"Origin": "null", "Access_Control_Request_Method": "POST"},
        ):
            status, told = await ask(door, "OPTIONS", path, None, **headers)
            assert (status, ALLOW in told, told["Vary"]) == (405, False, "Origin")
        assert (await ask(door, "OPTIONS", path, None, Origin=CHAT))[0] == 405
        assert (await ask(door, "OPTIONS", "/nothing", None, Origin=CHAT, Access_Control_Request_Method="GET"))[
            0
        ] == 404


async def test_answers_can_be_read_by_who_is_named(door: Door) -> None:
    """Success, problems, 304: all carry the origin; another page hears only that the answer depends on it."""
    async with opened_to(door, f"{CHAT},http://127.0.0.1:5173"):
        one = f"/v1/envelopes/{some_id()}"
        for origin, allowed in (
            (CHAT, CHAT),
            ("http://127.0.0.1:5173", "http://127.0.0.1:5173"),
            (OTHER, None),
            ("", None),
        ):
            sent = {"Origin": origin} if origin else {}
            found = [
                await ask(door, "POST", f"{one}/open", **sent),
                await ask(door, "GET", one, **sent),
                await ask(door, "GET", one, None, **sent),
                await ask(door, "GET", "/nothing", **sent),
                await ask(door, "DELETE", one, **sent),
            ]
            assert [status for status, _ in found] == [200, 200, 401, 404, 405]
            for _, headers in found:
                assert headers.get(ALLOW) == allowed
                assert headers["Vary"] == "Origin"
                assert headers.get("Access-Control-Expose-Headers") == (
                    "X-Request-Id, Retry-After, Idempotency-Replayed, ETag" if allowed else None
                )


def head(door: Door, method: str = "POST", verb: str = "/open", origin: str = CHAT, more: str = "") -> bytes:
    token = door.token("bob")
    return (
        f"{method} /v1/envelopes/{some_id()}{verb} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        f"{f'Origin: {origin}' if origin else 'X: y'}\r\n{more}\r\n"
    ).encode()


async def test_refusals_at_the_door_can_be_read(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused unparsed, parsed, as a newcomer or later, with a body: each refusal is for the page that asked."""
    monkeypatch.setattr(Threshold, "adjust", lambda *_, **__: None)
    async with opened_to(door, CHAT) as gateway:
        assert gateway.admission is not None
        threshold = gateway.admission.line._threshold
        threshold.limited, threshold.level = True, PLACES
        for origin, allowed in ((CHAT, CHAT), (OTHER, None), ("", None)):
            async with connected(gateway.port) as newcomer, connected(gateway.port) as older:
                newcomer.send(head(door, origin=origin))
                assert _told(await newcomer.answer(), 503) == allowed
                older.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                assert (await older.answer())[0] == 200
                assert any(isinstance(one, Connection) for one in gateway.bounds.all())
                assert any(isinstance(one, Newcomer) for one in gateway.bounds.all())
                for more in ("", "Connection: keep-alive\r\n", "Content-Length: 2\r\n"):
                    older.send(head(door, origin=origin, more=more) + (b"{}" if "2" in more else b""))
                    assert _told(await older.answer(), 503) == allowed, more
                older.send(head(door, origin=OTHER, more="Connection: keep-alive\r\n") + head(door, origin=origin))
                assert _told(await older.answer(), 503) is None
                assert _told(await older.answer(), 503) == allowed


def _told(answer: tuple[int, dict[str, str], bytes], status: int) -> str | None:
    assert answer[0] == status
    assert answer[1]["Vary"] == "Origin"
    return answer[1].get(ALLOW)


async def test_who_is_turned_away_hears_it_too(door: Door) -> None:
    """With all connections in use the 503 on a new one can be read by its page, if its request has come by then."""
    async with (
        opened_to(door, CHAT, connections=1, connections_per_address=1) as gateway,
        connected(gateway.port) as one,
    ):
        for peer in door.servers.values():
            peer.answer = silent
        one.send(head(door))
        while not any(peer.asked for peer in door.servers.values()):
            await asyncio.sleep(0.01)
        for data, allowed in ((head(door), CHAT), (head(door, origin=OTHER), None)):
            with socket.create_connection(("127.0.0.1", gateway.port)) as other:
                other.sendall(data)  # before the loop, which is this one, can accept
                other.setblocking(False)
                told = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(other, 65_536), 5)
            assert told.startswith(b"HTTP/1.1 503 ")
            assert (f"\r\n{ALLOW}: {CHAT}\r\n".encode() in told) == (allowed is not None)
            assert b"\r\nVary: Origin\r\n" in told


async def test_without_the_setting_there_is_not_one_byte(door: Door) -> None:
    """The classes are those of before, OPTIONS is 405, and no answer speaks of origins."""
    path = f"/v1/envelopes/{some_id()}"
    for method, status in (("GET", 200), ("OPTIONS", 405)):
        found, headers = await ask(door, method, path, Origin=CHAT, Access_Control_Request_Method="GET")
        assert found == status
        assert not [name for name in headers if name.startswith("Access-Control") or name == "Vary"]
        assert "OPTIONS" not in headers.get("Allow", "")
    assert {type(one) for one in door.gateway.bounds.all()} <= {Connection, Newcomer}


async def test_a_stream_can_be_read_by_who_is_named(door: Door) -> None:
    """Its head carries the same lines as an answer."""
    for peer in door.servers.values():
        peer.answer = lambda caller, number, _op, _args: caller.reply(number, b"{}", "0.open", 0)
    async with opened_to(door, CHAT) as gateway:
        token = door.token("alice")
        for origin, told in ((CHAT, CHAT), ("https://elsewhere.example", None)):
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(
                f"GET /v1/live?envelopes={some_id()} HTTP/1.1\r\nHost: x\r\nOrigin: {origin}\r\n"
                f"Authorization: Bearer {token}\r\n\r\n".encode()
            )
            text = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)).decode()
            assert text.startswith("HTTP/1.1 200")
            found = [line.partition(": ")[2] for line in text.splitlines() if line.startswith("Access-Control-Allow-O")]
            assert (found or [None])[0] == told
            writer.close()
