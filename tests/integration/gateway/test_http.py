"""HTTP itself: what the door says to paths, methods, bodies and bytes that are not as they should be."""

import asyncio
import contextlib
import functools
import json

import msgspec
import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from envelope.outcomes import Outcome
from errors import Refused
from gateway.handlers.ops import OpsHandlers
from gateway.http.request import Request
from gateway.identity.auth_failures import AuthFailureLimiter
from gateway.identity.tokens import make_token
from gateway.limits import BODY_BYTES
from gateway.openapi.operations import OPERATIONS
from gateway.resources import Resource
from gateway.routes import ROUTES
from runtime.clock import SystemClock
from tests.integration.gateway.fixtures import INDEX, KEY, METRICS_KEY, Door, door, running_gateway, some_id

__all__ = ["door"]

GOOD = {"kind": "lucky", "total_fen": 2000, "count": 20}
TOKEN = make_token(KEY, "alice", ttl_s=3600, clock=SystemClock())


async def raw(door: Door, sent: bytes, *, read_s: float = 5.0) -> tuple[int, dict[str, str], bytes]:
    """Send bytes as they are; return status, headers and all bytes of the body until the end or the length told."""
    reader, writer = await asyncio.open_connection("127.0.0.1", door.gateway.port)
    try:
        async with asyncio.timeout(read_s):
            writer.write(sent)
            return await answer_of(reader)
    finally:
        writer.close()


async def answer_of(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in head[1:] if line)
    return int(head[0].split(" ")[1]), headers, await reader.readexactly(int(headers["Content-Length"]))


def check_problem(status, headers, problem, code):
    assert problem["code"] == code
    assert problem["status"] == status
    assert headers["Content-Type"] == "application/problem+json"
    assert headers["X-Request-Id"] == problem["request_id"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert problem["type"] == f"/docs#{code}"
    assert problem["title"]
    assert problem["detail"]


def nothing_was_asked(door: Door) -> bool:
    return not any(peer.asked for peer in (*door.servers.values(), door.wallet))


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/envelopes/1/steal", "/v2/envelopes", "/v1/envelopes/", "/%00", "/é"])
async def test_no_such_path(door: Door, path: str) -> None:
    """A path that is none of ours is 404 with a code."""
    status, headers, problem = await door.call("GET", path)
    assert status == 404
    check_problem(status, headers, problem, "route_not_found")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
async def test_other_methods(door: Door, method: str) -> None:
    """A method that a path does not have is 405, and Allow names those that it has."""
    for route in ROUTES:
        path = route.template.replace("{id}", some_id())
        status, headers, problem = await door.call(method, path)
        assert status == 405
        check_problem(status, headers, problem, "method_not_allowed")
        assert route.method in headers["Allow"].split(", ")


async def test_head_is_get_without_a_body(door: Door) -> None:
    """HEAD gives the headers of GET, its length among them, and no body."""
    status, headers, text = await door.call("HEAD", "/docs", None)
    assert (status, text) == (200, b"")
    assert int(headers["Content-Length"]) > 1000


BAD_TOKENS = [
    (None, "token_missing"),
    ("Basic eDp5", "token_missing"),
    (f"Bearer {make_token(KEY, 'alice', ttl_s=-1, clock=SystemClock())}", "token_expired"),
    (f"Bearer {make_token('x' * 32, 'alice', ttl_s=60, clock=SystemClock())}", "token_invalid"),
    ("Bearer rubbish", "token_invalid"),
]


@pytest.mark.parametrize(("header", "code"), BAD_TOKENS)
async def test_tokens(door: Door, header: str | None, code: str) -> None:
    """Without a good token nobody hears anything of an envelope or a wallet, and nothing is asked of them."""
    headers = {} if header is None else {"Authorization": header}
    for route in ROUTES:
        if not route.template.startswith("/v1") or OPERATIONS[route.name].public:
            continue
        path = route.template.replace("{id}", some_id())
        status, told, problem = await door.call(route.method, path, None, **headers)
        assert status == 401
        check_problem(status, told, problem, code)
        assert told["WWW-Authenticate"].startswith("Bearer")
    assert nothing_was_asked(door)


async def test_too_many_rejected_tokens(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that tries tokens is told 429 and when to come again; who has shown a good one before goes on."""
    monkeypatch.setattr(
        "gateway.service.AuthFailureLimiter", functools.partial(AuthFailureLimiter, now_ns=lambda: 10**12)
    )
    settings = msgspec.structs.replace(door.gateway.settings, rejected_tokens_per_s=5)
    async with running_gateway(settings) as gateway:
        door.url = f"http://127.0.0.1:{gateway.port}"
        await door.until_ready()
        known = {"Authorization": f"Bearer {TOKEN}"}
        assert (await door.call("GET", "/v1/me/wallet", None, **known))[0] == 200
        told = [await door.call("GET", "/v1/me/wallet", None, Authorization=f"Bearer x{n}") for n in range(7)]
        assert [status for status, _, _ in told] == [401] * 5 + [429] * 2
        status, headers, problem = told[-1]
        assert (problem["retry"], headers["Retry-After"]) == ("later", "1")
        check_problem(status, headers, problem, "too_many_rejected_tokens")
        assert (await door.call("GET", "/v1/me/wallet", None, **known))[0] == 200
        assert (await door.call("GET", "/v1/me/wallet", "new"))[0] == 429


BAD_IDS = [
    ("123", 400, "malformed_envelope_id"),
    ("251121123456789007", 400, "malformed_envelope_id"),
    ("25112112345678900007", 400, "malformed_envelope_id"),
    ("251121123456789000x", 400, "malformed_envelope_id"),
    ("%D9%A3" * 19, 400, "malformed_envelope_id"),
    ("%EF%BC%91" + "511211234567890007", 400, "malformed_envelope_id"),
    ("0911211234567890007", 400, "malformed_envelope_id"),
    ("9999999999999999999", 400, "malformed_envelope_id"),
    ("-511211234567890007", 400, "malformed_envelope_id"),
    ("2502301234567890007", 404, "impossible_day"),
    ("9211211234567890007", 404, "future_envelope_id"),
    ("2511211234567890100", 404, "unknown_slot"),
]


@pytest.mark.parametrize(("text", "status", "code"), BAD_IDS)
async def test_bad_ids(door: Door, text: str, status: int, code: str) -> None:
    """An ID that can name nothing is refused at the door, by every call that takes one."""
    for method, verb in (("POST", "/open"), ("POST", "/grab"), ("POST", "/cancel"), ("GET", "")):
        got, headers, problem = await door.call(method, f"/v1/envelopes/{text}{verb}")
        assert got == status
        check_problem(status, headers, problem, code)
        assert "slot" not in problem["title"] + problem["detail"].lower()
    assert nothing_was_asked(door)


BAD_CREATES = [
    (400, "malformed_json", b"", {}),
    (400, "malformed_json", b"{", {}),
    (400, "malformed_json", b"[", {}),
    (422, "wrong_type", b"[]", {}),
    (422, "duplicate_field", b'{"kind":"lucky","total_fen":1,"count":1,"total_fen":2000}', {}),
    (415, "unsupported_media_type", GOOD, {"Content_Type": "text/plain"}),
    (415, "unsupported_media_type", GOOD, {"Content_Type": "application/x-www-form-urlencoded"}),
    (415, "unsupported_media_type", GOOD, {"Content_Type": "application/json; charset=latin-1"}),
    (415, "unsupported_media_type", GOOD, {"Content_Encoding": "gzip"}),
    (422, "unknown_field", {**GOOD, "user": "mallory"}, {}),
    (422, "malformed_amount", {**GOOD, "total_fen": True}, {}),
    (422, "amount_out_of_range", {**GOOD, "total_fen": 0}, {}),
    (422, "count_exceeds_total", {**GOOD, "total_fen": 1}, {}),
    (422, "unknown_kind", {**GOOD, "kind": "rich"}, {}),
    (422, "control_character", {**GOOD, "greeting": "\0"}, {}),
    (400, "malformed_json", json.dumps({**GOOD, "greeting": "x"}).replace('"x"', '"\\ud800"').encode(), {}),
    (400, "malformed_idempotency_key", GOOD, {"Idempotency_Key": "x" * 65}),
    (400, "malformed_idempotency_key", GOOD, {"Idempotency_Key": "a b"}),
    (400, "malformed_idempotency_key", GOOD, {"Idempotency_Key": "é"}),
    (400, "malformed_idempotency_key", GOOD, {"Idempotency_Key": ""}),
]


@pytest.mark.parametrize(("status", "code", "body", "headers"), BAD_CREATES)
async def test_bad_creates(door: Door, status: int, code: str, body: object, headers: dict[str, str]) -> None:
    """Each fault is refused with its status and code, and nothing goes on to a SET."""
    got, told, problem = await door.call("POST", "/v1/envelopes", "alice", body, **{"Idempotency_Key": "k", **headers})
    assert got == status
    check_problem(status, told, problem, code)
    assert nothing_was_asked(door)


async def test_the_idempotency_key_is_needed_once(door: Door) -> None:
    """A create without a key, or with two, is refused."""
    status, headers, problem = await door.call("POST", "/v1/envelopes", "alice", GOOD)
    assert status == 400
    check_problem(status, headers, problem, "idempotency_key_missing")
    body = json.dumps(GOOD).encode()
    sent = (
        b"POST /v1/envelopes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %b\r\nIdempotency-Key: a\r\n" % TOKEN.encode()
    )
    sent += b"Idempotency-Key: b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    status, headers, text = await raw(door, sent)
    assert status == 400
    check_problem(status, headers, json.loads(text), "malformed_idempotency_key")
    assert nothing_was_asked(door)


def create_head(*lines: str) -> bytes:
    head = ("POST /v1/envelopes HTTP/1.1", "Host: x", f"Authorization: Bearer {TOKEN}", "Idempotency-Key: k")
    return "\r\n".join([*head, "Content-Type: application/json", *lines, "", ""]).encode()


async def test_a_large_body_is_refused_unread(door: Door) -> None:
    """A body that says it is too large is refused before a byte of it has come; so is one that turns out to be."""
    status, headers, text = await raw(door, create_head(f"Content-Length: {BODY_BYTES + 1}"))
    assert status == 413
    check_problem(status, headers, json.loads(text), "body_too_large")
    assert headers["Connection"] == "close"
    chunk = b"%x\r\n%b\r\n" % (BODY_BYTES // 2, b" " * (BODY_BYTES // 2))
    status, headers, text = await raw(door, create_head("Transfer-Encoding: chunked") + 3 * chunk)
    assert status == 413
    check_problem(status, headers, json.loads(text), "body_too_large")
    status, _, _ = await door.call("POST", "/v1/envelopes", "alice", b" " * BODY_BYTES, Idempotency_Key="k")
    assert status == 400


async def test_a_body_in_pieces(door: Door) -> None:
    """A body in chunks is a body, and a client that waits for 100 Continue gets it, unless it is refused anyway."""
    body = json.dumps(GOOD).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    assert (await raw(door, create_head("Transfer-Encoding: chunked") + chunks))[0] == 201
    reader, writer = await asyncio.open_connection("127.0.0.1", door.gateway.port)
    async with asyncio.timeout(5):
        writer.write(create_head(f"Content-Length: {len(body)}", "Expect: 100-continue"))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        assert (await answer_of(reader))[0] == 201
    writer.close()
    assert (await raw(door, create_head("Content-Length: 99999999", "Expect: 100-continue")))[0] == 413


async def test_a_trailer_never_becomes_a_header_of_the_next_request(door: Door) -> None:
    """The connection ends after a body in chunks: its last trailer line would be a header of the next request."""
    body = json.dumps(GOOD).encode()
    chunks = b"%x\r\n%b\r\n0\r\nAuthorization: Bearer %b\r\n\r\n" % (len(body), body, TOKEN.encode())
    following = b"GET /v1/me/wallet HTTP/1.1\r\nHost: x\r\n\r\n"
    for wait in (False, True):
        reader, writer = await asyncio.open_connection("127.0.0.1", door.gateway.port)
        async with asyncio.timeout(5):
            writer.write(create_head("Transfer-Encoding: chunked") + chunks + (b"" if wait else following))
            status, headers, _ = await answer_of(reader)
            assert (status, headers["Connection"]) == (201, "close")
            with contextlib.suppress(ConnectionError):
                writer.write(following)
                assert await reader.read() == b""
        writer.close()


async def test_a_body_that_drips(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that does not come is given up with 408, and the connection with it."""
    monkeypatch.setattr("gateway.http.body.BODY_S", 0.2)
    status, headers, text = await raw(door, create_head("Content-Length: 50") + b"{")
    assert status == 408
    check_problem(status, headers, json.loads(text), "body_timeout")
    assert headers["Connection"] == "close"


async def test_a_body_that_nobody_wanted(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of a refused request's body is dropped and the connection lives on; one that never comes ends it."""
    monkeypatch.setattr("gateway.connection.LINGER_S", 0.3)
    head = b"POST /v1/nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", door.gateway.port)
    async with asyncio.timeout(5):
        writer.write(head)
        assert (await answer_of(reader))[0] == 404
        writer.write(b"x" * 100 + b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await answer_of(reader))[0] == 200
        writer.write(head)
        assert (await answer_of(reader))[0] == 404
        assert await reader.read() == b""
    writer.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"GARBAGE\r\n\r\n",
        b"BREW /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nBad Header: 1\r\n\r\n",
        b"POST /v1/envelopes HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/envelopes HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        create_head("Transfer-Encoding: chunked") + b"zz\r\n",
    ],
)
async def test_what_is_no_http(door: Door, sent: bytes) -> None:
    """Bytes that are no request are answered with a problem, too, and the connection ends."""
    status, headers, text = await raw(door, sent)
    assert status == 400
    check_problem(status, headers, json.loads(text), "malformed_http")
    assert headers["Connection"] == "close"


async def test_connections_live_on(door: Door) -> None:
    """Requests sent at once on one connection are answered in order, errors too; HTTP/1.0 may ask to live on."""
    reader, writer = await asyncio.open_connection("127.0.0.1", door.gateway.port)
    async with asyncio.timeout(5):
        for path in (b"/healthz", b"/nope", b"/readyz"):
            writer.write(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path)
        assert [(await answer_of(reader))[0] for _ in range(3)] == [200, 404, 200]
        writer.write(b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert (await answer_of(reader))[1]["Connection"] == "keep-alive"
        writer.write(b"GET http://anywhere/healthz HTTP/1.1\r\nHost: anywhere\r\nConnection: close\r\n\r\n")
        status, headers, _ = await answer_of(reader)
        assert (status, headers["Connection"]) == (200, "close")
        assert await reader.read() == b""
    writer.close()


async def test_request_ids_are_unique(door: Door) -> None:
    """Every answer has its own X-Request-Id."""
    answers = [await door.call("GET", path, None) for path in ("/healthz", "/nope", "/docs") * 5]
    assert len({headers["X-Request-Id"] for _, headers, _ in answers}) == 15


async def test_an_unexpected_error_is_ours(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in our code is 500 with a request ID and not a word about it; the next request is served."""

    def broken(*_):
        raise ZeroDivisionError("secret inside")

    monkeypatch.setattr(door.gateway.sets, "call", broken)
    status, headers, problem = await door.call("POST", f"/v1/envelopes/{some_id()}/open")
    assert status == 500
    check_problem(status, headers, problem, "internal_error")
    assert "secret" not in json.dumps(problem)
    monkeypatch.undo()
    assert (await door.call("POST", f"/v1/envelopes/{some_id()}/open"))[0] == 200


async def test_an_answer_of_a_set_that_does_not_fit(door: Door) -> None:
    """A SET that answers in another shape is our fault, told as 500 and not as a lost connection."""
    for peer in door.servers.values():
        peer.answer = lambda peer, number, *_: peer.reply(number, 99)
    for method, verb in (("POST", "/open"), ("GET", "")):
        status, headers, problem = await door.call(method, f"/v1/envelopes/{some_id()}{verb}")
        assert status == 500
        check_problem(status, headers, problem, "internal_error")


async def test_a_stop_answers_what_is_in_flight(door: Door) -> None:
    """A gateway that is told to stop takes no new connections, answers what it was asked, and ends the connection."""
    waiting = []
    for one in door.servers.values():
        one.answer = lambda peer, number, *_: waiting.append((peer, number))
    async with contextlib.AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(running_gateway(door.gateway.settings))
        door.url = f"http://127.0.0.1:{gateway.port}"
        await door.until_ready()
        asking = asyncio.ensure_future(door.call("POST", f"/v1/envelopes/{some_id()}/open"))
        await door.until(lambda: waiting)
        stopping = asyncio.ensure_future(stack.aclose())
        await asyncio.sleep(0.05)
        with pytest.raises(OSError, match=r"Connect call failed|refused"):
            await asyncio.open_connection("127.0.0.1", gateway.port)
        peer, number = waiting[0]
        peer.reply(number, INDEX[Outcome.OPENED], 7, 0, True, None)
        status, headers, answer = await asking
        assert (status, answer["amount_fen"], headers["Connection"]) == (200, 7, "close")
        await stopping


async def test_too_many_at_once(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the bound a request is told `busy` before anything is done for it."""
    monkeypatch.setattr("gateway.dispatch.REQUESTS", 0)
    status, headers, problem = await door.call("POST", f"/v1/envelopes/{some_id()}/open")
    assert status == 503
    check_problem(status, headers, problem, "busy")
    assert "Retry-After" in headers
    assert nothing_was_asked(door)


async def test_what_is_counted(door: Door) -> None:
    """Requests are counted by route and status; paths that are none of ours are counted together."""
    for path in ("/a", "/b", "/c"):
        await door.call("GET", path, None)
    await door.call("POST", f"/v1/envelopes/{some_id()}/open")
    status, headers, text = await door.call("GET", "/metrics", None, Authorization=f"Bearer {METRICS_KEY}")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain")
    assert b'hongbao_http_requests_total{route="openEnvelope",status="200"}' in text
    assert b'route="none",status="404"' in text
    assert b"hongbao_http_in_flight" in text


@pytest.mark.parametrize("key", [None, "", "m" * 31, KEY, "\xe9"])
async def test_metrics_are_for_whoever_has_their_key(door: Door, key: str | None) -> None:
    """Routes, server names and traffic are shown to no stranger: without the metrics key the answer is 401."""
    sent = {} if key is None else {"Authorization": f"Bearer {key}"}
    status, headers, problem = await door.call("GET", "/metrics", None, **sent)
    assert status == 401
    check_problem(status, headers, problem, "metrics_key_missing")
    as_user, _, _ = await door.call("GET", "/metrics", "alice")
    assert as_user == 401


async def test_metrics_without_a_key_in_the_settings_are_closed(door: Door) -> None:
    """A gateway whose operator set no metrics key shows its metrics to nobody, also not for an empty key."""
    ops = OpsHandlers(door.gateway.readiness, dict, door.gateway.request_metrics, "")
    for given in ("", "Bearer ", "Bearer x"):
        request = Request("GET", "/metrics", CIMultiDictProxy(CIMultiDict(Authorization=given)), None, True, None, None)
        with pytest.raises(Refused, match="metrics_key_missing"):
            await ops.exposition(request, Resource({}))


@pytest.mark.parametrize("path", ["/v1/me/wallet/entries?limt=5", "/v1/me/envelopes?role=sent&offset=5"])
async def test_parameters_that_a_list_does_not_have(door: Door, path: str) -> None:
    """A misspelt parameter is refused with its name, and the wallet is not asked."""
    status, headers, problem = await door.call("GET", path)
    assert status == 400
    check_problem(status, headers, problem, "unknown_parameter")
    assert nothing_was_asked(door)


async def test_passwords_that_cannot_be_right(door: Door) -> None:
    """A password too long, empty or with control characters is refused at the door: it costs no try."""
    for password, code in (("", "password_length"), ("x" * 33, "password_length"), ("a\nb", "control_character")):
        status, headers, problem = await door.call(
            "POST", f"/v1/envelopes/{some_id()}/open", "bob", {"password": password}
        )
        assert status == 422
        check_problem(status, headers, problem, code)
    assert nothing_was_asked(door)


async def test_a_field_of_an_open_that_is_there_twice(door: Door) -> None:
    """An open's body is as strict as a create's."""
    for body in (b'{"share_token":"a","share_token":"b"}', b'{"password":"a","share_token":"b","password":"c"}'):
        status, headers, problem = await door.call("POST", f"/v1/envelopes/{some_id()}/open", "bob", body)
        assert status == 422
        check_problem(status, headers, problem, "duplicate_field")
    assert nothing_was_asked(door)
    status, _, _ = await door.call("POST", f"/v1/envelopes/{some_id()}/open", "bob", b'{"password":"a:b:c"}')
    assert status == 200


async def test_where_a_share_token_may_stand(door: Door) -> None:
    """In the body or header of open and grab, in the header or query of a look; a wrong one is told to the SET."""
    envelope_id = (await door.create(**GOOD)).envelope_id
    made = door.servers["a"].asked + door.servers["b"].asked
    token = (await door.call("GET", f"/v1/envelopes/{envelope_id}"))[2]["share_token"]
    for peer in door.servers.values():
        peer.asked.clear()
    path = f"/v1/envelopes/{envelope_id}"
    await door.call("POST", f"{path}/open", "bob", {"share_token": token})
    await door.call("POST", f"{path}/open", "bob", None, X_Share_Token=token)
    await door.call("POST", f"{path}/grab", "bob", {}, X_Share_Token=token)
    await door.call("GET", path, "bob", None, X_Share_Token=token)
    await door.call("GET", f"{path}?share_token={token}", "bob")
    await door.call("POST", f"{path}/open?share_token={token}", "bob", {"share_token": "x" * 22})
    await door.call("GET", f"{path}?share_token=", "bob")
    asked = [args[2] for peer in door.servers.values() for _, args in peer.asked]
    assert asked == [True] * 5 + [False] * 2
    assert made
