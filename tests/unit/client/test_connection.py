"""A call over a bad line: what is repeated, with what, how often, and what is not."""

import asyncio
import contextlib
import math
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from client import (
    NO_PATIENCE,
    ApiError,
    Attempt,
    Conflict,
    Frozen,
    Hongbao,
    InsufficientFunds,
    InvalidRequest,
    NotFound,
    NotSignedIn,
    OutcomeUnknown,
    Patience,
    RetryBudget,
    TryLater,
    Unreachable,
    live,
)

QUICK = Patience(first_s=0.001, longest_s=0.002, attempt_s=0.5)
WALLET = {"user": "alice", "balance_fen": 7}
ENVELOPE = {
    "envelope_id": "1", "status": "open", "sender": "alice", "kind": "lucky", "split": "double_mean",
    "split_version": 1, "split_commitment": "0", "total_fen": 1, "count": 1, "greeting": "", "password_required": False,
    "created_at": "2026-11-26T00:00:00Z", "opens_at": "2026-11-26T00:00:00Z", "expires_at": "2026-11-27T00:00:00Z",
    "a_member_of_next_year": [1],
}  # fmt: skip

Answer = Callable[[web.Request], Any]


class Line:
    """A gateway that answers its requests with one answer after the other; the last one goes on."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[web.Request] = []
        self.bodies: list[bytes] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        self.bodies.append(await request.read())
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        found = answer(request)
        return await found if asyncio.iscoroutine(found) else found


def refuse(status: int, code: str, retry: str, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: web.json_response({"code": code, "retry": retry}, status=status, headers=named)


def fine(_: web.Request) -> web.Response:
    return web.json_response(WALLET)


def made(_: web.Request) -> web.Response:
    return web.json_response(ENVELOPE, status=201)


def hang_up(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def break_off(request: web.Request) -> web.StreamResponse:
    """Begin an answer, and hang up in the middle of it."""
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"user":')
    assert request.transport is not None
    request.transport.close()
    return response


async def silent(_: web.Request) -> web.Response:
    await asyncio.sleep(5)
    return web.Response()


@contextlib.asynccontextmanager
async def over(line: Line, patience: Patience = QUICK, **more: Any) -> AsyncIterator[Hongbao]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", line.answer)
    async with TestServer(app) as server, Hongbao(str(server.make_url("/")), patience=patience, **more) as hongbao:
        yield hongbao


def page(_: web.Request) -> web.Response:
    """What a proxy says in place of the gateway."""
    return web.Response(text="<html>Sign in to the network</html>", content_type="text/html")


@pytest.mark.parametrize("fault", [hang_up, break_off, silent, page, refuse(502, "", ""), refuse(504, "x", "repeat")])
async def test_a_create_is_repeated_with_the_same_key(fault: Answer) -> None:
    """Whatever happened to the answer: the very same request goes out again."""
    line = Line(fault, made)
    async with over(line) as hongbao:
        envelope = await hongbao.user("t").create(total_fen=1, count=1, greeting="新年好")
    assert envelope.envelope_id == "1"
    first, second = line.asked
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]
    assert line.bodies[0] == line.bodies[1] != b""
    assert first.headers["X-Request-Timeout-Ms"] == "500"


@pytest.mark.parametrize("second", [refuse(503, "busy", "later"), refuse(401, "token_invalid", "never")])
async def test_what_is_unknown_stays_unknown(second: Answer) -> None:
    """The first attempt may have made an envelope: the refusal of the second must not read as "nothing was done"."""
    line = Line(hang_up, second)
    async with over(line, Patience(attempts=2, first_s=0.001)) as hongbao:
        with pytest.raises(OutcomeUnknown, match="earlier attempt") as unknown:
            await hongbao.user("t").create(total_fen=1, count=1)
        assert unknown.value.idempotency_key == line.asked[0].headers["Idempotency-Key"]
        with pytest.raises((TryLater, NotSignedIn)):
            await hongbao.user("t").balance_fen()


async def test_a_create_that_was_undone_is_known_to_be() -> None:
    """After an attempt without an answer too: the money is back, and a repeat of this key would never make anything."""
    line = Line(hang_up, refuse(409, "create_undone", "never"))
    async with over(line) as hongbao:
        with pytest.raises(Conflict, match="create_undone"):
            await hongbao.user("t").create(total_fen=1, count=1)
    assert len(line.asked) == 2


async def test_never_sooner_than_the_gateway_asks() -> None:
    """Retry-After is what it says, and a little more, so that a crowd does not come back at once."""
    waited: list[float] = []
    line = Line(refuse(503, "busy", "later", Retry_After="7"), fine)
    with pytest.MonkeyPatch.context() as patch:
        async with over(line) as hongbao:
            real = asyncio.sleep

            async def sleep(seconds: float) -> None:
                waited.append(seconds)
                await real(0)

            patch.setattr("client.connection.asyncio.sleep", sleep)
            assert await hongbao.user("t").balance_fen() == 7
    assert [7.0 <= one <= 10.5 for one in waited if one > 1] == [True]


async def test_what_is_refused_for_good_is_asked_once() -> None:
    """The error carries the gateway's own code."""
    line = Line(refuse(422, "wrong_type", "never"))
    async with over(line) as hongbao:
        with pytest.raises(InvalidRequest, match="wrong_type"):
            await hongbao.user("t").balance_fen()
    assert len(line.asked) == 1


@pytest.mark.parametrize(("patience", "asked"), [(NO_PATIENCE, 1), (Patience(attempts=3, first_s=0.001), 3)])
async def test_patience_ends(patience: Patience, asked: int) -> None:
    """After so many attempts the last refusal is raised."""
    line = Line(refuse(503, "busy", "later"))
    async with over(line, patience) as hongbao:
        with pytest.raises(TryLater, match="busy"):
            await hongbao.user("t").balance_fen()
    assert len(line.asked) == asked


async def test_retries_of_all_users_are_a_tenth_of_all_calls() -> None:
    """Of a gateway that refuses everything: ten at once, and then one for ten calls."""
    line = Line(refuse(503, "busy", "later"))
    async with over(line) as hongbao:
        for number in range(100):
            with pytest.raises(TryLater):
                await hongbao.user(f"t-{number}").balance_fen()
    assert 110 <= len(line.asked) <= 121


async def test_two_sessions_may_share_a_budget() -> None:
    """What one has spent the other lacks."""
    budget, line = RetryBudget(part=0.0, reserve=3), Line(refuse(503, "busy", "later"))
    async with over(line, budget=budget) as one, over(line, budget=budget) as other:
        for hongbao, asked in ((one, 4), (other, 5)):
            with pytest.raises(TryLater):
                await hongbao.user("t").balance_fen()
            assert len(line.asked) == asked
    unbounded, line = RetryBudget(reserve=math.inf), Line(refuse(503, "busy", "later"))
    async with over(line, Patience(attempts=50, first_s=0.001, longest_s=0.001), budget=unbounded) as hongbao:
        with pytest.raises(TryLater):
            await hongbao.user("t").balance_fen()
    assert len(line.asked) == 50


async def test_a_token_that_has_ended_is_asked_for_once() -> None:
    """The next call uses the new one; calls that were refused together ask together."""
    given: list[str] = []

    async def token() -> str:
        await asyncio.sleep(0)
        given.append(f"token-{len(given) + 1}")
        return given[-1]

    def answer(request: web.Request) -> web.Response:
        if request.headers["Authorization"] == "Bearer token-1":
            return refuse(401, "token_expired", "never")(request)
        return fine(request)

    line = Line(answer)
    async with over(line) as hongbao:
        alice = hongbao.user(token)
        assert await asyncio.gather(*(alice.balance_fen() for _ in range(10))) == [7] * 10
        assert given == ["token-1", "token-2"]
        assert await hongbao.user(lambda: "token-9").balance_fen() == 7


async def test_a_token_that_stays_wrong_is_an_error() -> None:
    """A text cannot be renewed, and a function that gives no good one is asked twice, not for ever."""
    asked: list[int] = []

    def token() -> str:
        asked.append(1)
        return "no good"

    line = Line(refuse(401, "token_expired", "never"))
    async with over(line) as hongbao:
        for source in ("a text", token):
            with pytest.raises(NotSignedIn, match="token_expired"):
                await hongbao.user(source).balance_fen()
    assert len(asked) == 2
    assert len(line.asked) == 3


async def test_nobody_there() -> None:
    """Without a connection nothing was done, which the error says; whoever catches OutcomeUnknown catches it too."""
    async with Hongbao("http://127.0.0.1:9", patience=Patience(attempts=2, first_s=0.001)) as hongbao:
        with pytest.raises(OutcomeUnknown, match="no_answer: nothing was done") as caught:
            await hongbao.user("t").create(total_fen=1, count=1)
    assert type(caught.value) is Unreachable
    assert "does the gateway run at this address?" in caught.value.detail
    assert caught.value.idempotency_key
    with pytest.raises(RuntimeError, match="async with"):
        await hongbao.user("t").balance_fen()


async def test_a_gateway_that_goes_after_the_first_attempt() -> None:
    """What an earlier attempt may have done stays unknown, though the last one had no connection."""

    async def hang_up_and_go(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        server.close()
        writer.close()

    server = await asyncio.start_server(hang_up_and_go, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with Hongbao(url, patience=Patience(attempts=2, first_s=0.001)) as hongbao:
        with pytest.raises(OutcomeUnknown, match=r"an earlier attempt .* had no connection") as caught:
            await hongbao.user("t").create(total_fen=1, count=1)
    assert type(caught.value) is OutcomeUnknown


async def test_a_server_that_is_no_gateway() -> None:
    """The error says that the answer is no gateway's, and to check the address."""
    for answer in (page, lambda _: web.Response(status=404)):
        async with over(Line(answer), NO_PATIENCE) as hongbao:
            with pytest.raises(ApiError, match=r"no answer of a gateway.*check the address"):
                await hongbao.user("t").balance_fen()


@pytest.mark.parametrize("named", [2611275661645375091, None, 1.5])
async def test_an_envelope_that_is_named_by_no_text(named: Any) -> None:
    """A number is refused with the sentence what to give; nothing is sent."""
    line = Line(fine)
    async with over(line) as hongbao:
        user = hongbao.user("t")
        with pytest.raises(TypeError, match="as a text, not by"):
            await user.open(named)
        with pytest.raises(TypeError, match="as a text, not by"):
            _ = [one async for one in user.watch(named)]
        with pytest.raises(ValueError, match="watch needs an envelope"):
            _ = [one async for one in user.watch()]
    assert not line.asked


async def test_a_token_as_files_have_it() -> None:
    """White space around it is no part of it, whether it is a text or a function gives it."""
    line = Line(fine)
    async with over(line) as hongbao:
        for source in (" secret\n", lambda: "secret\n"):
            await hongbao.user(source).balance_fen()
    assert [one.headers["Authorization"] for one in line.asked] == ["Bearer secret"] * 2


async def test_what_is_no_token() -> None:
    """Nothing, or a whole header, is an error of the program, which says what to give; nothing is sent or shown."""
    line = Line(fine)
    nothing: Any = None

    async def forgotten() -> Any:
        return None

    async with over(line) as hongbao:
        for source, kind, said in (
            (lambda: nothing, TypeError, "returned NoneType"),
            (forgotten, TypeError, "returned NoneType"),
            (lambda: "Bearer secret", ValueError, "give the token alone"),
        ):
            with pytest.raises(kind, match=said) as caught:
                await hongbao.user(source).balance_fen()
            assert "secret" not in str(caught.value)
        with pytest.raises(TypeError, match="a text, or a function"):
            hongbao.user(nothing)
        with pytest.raises(ValueError, match="give the token alone"):
            hongbao.user("bearer secret")
    assert not line.asked


async def test_each_attempt_can_be_measured() -> None:
    """Also those that were repeated."""
    heard: list[Attempt] = []
    line = Line(refuse(503, "busy", "later"), fine)
    async with over(line, on_attempt=heard.append) as hongbao:
        await hongbao.user("t").balance_fen()
    assert [(one.method, one.path, one.number, one.code) for one in heard] == [
        ("GET", "/v1/me/wallet", 1, "busy"),
        ("GET", "/v1/me/wallet", 2, ""),
    ]
    assert all(0 < one.seconds < 5 for one in heard)


async def test_a_name_from_somebody_becomes_no_other_path() -> None:
    """A share ID that a user typed is a part of the path, whatever stands in it."""
    line = Line(refuse(404, "share_id_invalid", "never"))
    async with over(line) as hongbao:
        for typed in ("../me/wallet", "a?limit=1", "a#b", "红包"):
            with pytest.raises(Exception, match="share_id_invalid"):
                await hongbao.user("t").open(typed)
        for typed in ("", ".", ".."):
            with pytest.raises(ValueError, match="names no envelope"):
                await hongbao.user("t").open(typed)
    assert all(one.raw_path.startswith("/v1/envelopes/") and one.raw_path.count("/") == 4 for one in line.asked)
    assert all(not one.query_string for one in line.asked)


async def test_a_stream_goes_on_with_a_new_token() -> None:
    """One that ends because its token did is begun again at once, where it was; so is one that just breaks off."""
    frame = (
        b'event: envelope\nid: 1.%d.%b\ndata: {"envelope_id":"1","status":"%b","count":2,"claimed_count":%d,'
        b'"claimed_fen":0,"claims":[]}\n\n'
    )
    streams = iter(
        [
            b"retry: 1\n\n" + frame % (0, b"open", b"open", 0) + b'event: end\ndata: {"reason":"token_expired"}\n\n',
            b"retry: 1\n\n" + b"event: envelope\ndata: broken",
            b"retry: 1\n\n" + frame % (2, b"sold_out", b"sold_out", 2),
        ]
    )

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(next(streams))
        return response

    numbers = iter(range(1, 10))
    line = Line(stream)
    async with over(line) as hongbao, asyncio.timeout(20):
        user = hongbao.user(lambda: f"token-{next(numbers)}")
        seen = [(change.claimed_count, change.final) async for change in user.watch("1")]
    assert seen == [(0, False), (2, True)]
    assert [one.headers["Authorization"] for one in line.asked] == ["Bearer token-1"] + ["Bearer token-2"] * 2
    assert [one.headers.get("Last-Event-ID") for one in line.asked] == [None, "1.0.open", "1.0.open"]


async def test_one_that_expires_is_watched_until_it_is_closed() -> None:
    """By the clock alone nobody knows what goes back: the watch goes on, over a new stream as well, until that came."""
    frame = (
        b'event: envelope\nid: 1.%d.expired\ndata: {"envelope_id":"1","status":"expired","count":2,"claimed_count":0,'
        b'"claimed_fen":0,"claims":[]%b}\n\n'
    )
    closed = b',"refund_fen":7,"closed_at":"2026-11-27T00:00:01Z"'
    streams = iter([b"retry: 1\n\n" + frame % (0, b""), b"retry: 1\n\n" + frame % (1, closed)])

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(next(streams))
        return response

    async with over(Line(stream)) as hongbao, asyncio.timeout(20):
        seen = [(one.final, one.complete, one.refund_fen) async for one in hongbao.user("t").watch("1")]
    assert seen == [(True, False, None), (True, True, 7)]


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "localhost", "", "ws://127.0.0.1:8080"])
def test_a_url_without_http_is_refused_at_once(url: str) -> None:
    """Not after five attempts that nobody answered."""
    with pytest.raises(ValueError, match="begins with http://"):
        Hongbao(url)


async def test_a_quiet_stream_outlives_many_tokens() -> None:
    """Nothing happens for hours, and each token ends: every one is followed by the next, at the server's pace."""
    ended = b'retry: 1\n\nevent: end\ndata: {"reason":"token_expired"}\n\n'
    last = (
        b'event: envelope\nid: 1.1.sold_out\ndata: {"envelope_id":"1","status":"sold_out","count":1,"claimed_count":1,'
        b'"claimed_fen":1,"claims":[]}\n\n'
    )
    streams = iter([*[ended] * 12, last])

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(next(streams))
        return response

    numbers = iter(range(1, 20))
    line = Line(stream)
    async with over(line) as hongbao, asyncio.timeout(20):
        user = hongbao.user(lambda: f"token-{next(numbers)}")
        assert [change.status async for change in user.watch("1")] == ["sold_out"]
    assert [one.headers["Authorization"] for one in line.asked] == [f"Bearer token-{n}" for n in range(1, 14)]


async def test_a_stream_that_is_refused_for_its_token() -> None:
    """The next token is tried once; a text has no next one."""
    line = Line(refuse(401, "token_invalid", "never"))
    numbers = iter(range(1, 9))
    async with over(line) as hongbao, asyncio.timeout(20):
        for source, asked in (("a text", 1), (lambda: f"token-{next(numbers)}", 3)):
            with pytest.raises(NotSignedIn, match="token_invalid"):
                async for _ in hongbao.user(source).watch("1"):
                    pass
            assert len(line.asked) == asked


async def test_one_that_is_busy_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are watched meanwhile; one that is refused for good ends the watch."""
    monkeypatch.setattr(live, "AGAIN_S", 0.05)
    final = (
        b'event: envelope\nid: %b.1.sold_out\ndata: {"envelope_id":"%b","status":"sold_out","count":1,'
        b'"claimed_count":1,"claimed_fen":1,"claims":[]}\n\n'
    )
    refused = b'event: refused\ndata: {"envelope":"2","code":"%b","detail":"a sentence"}\n\n'
    heads = iter([refused % b"busy" + final % (b"1", b"1"), refused % b"busy", refused % b"invariant_broken"])

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"retry: 1\n\n" + next(heads))
        await asyncio.sleep(3)
        return response

    line, seen = Line(stream), []

    async def watch(hongbao: Hongbao) -> None:
        async for change in hongbao.user("t").watch("1", "2"):
            seen.append(change.envelope_id)  # noqa: PERF401 - what came before the error counts

    async with over(line) as hongbao, asyncio.timeout(20):
        with pytest.raises(Frozen, match="invariant_broken"):
            await watch(hongbao)
    assert seen == ["1"]
    assert [one.query["envelopes"] for one in line.asked] == ["1,2", "2", "2"]


async def test_a_redirect_is_not_followed() -> None:
    """The gateway has none; a token goes to nobody else."""
    line = Line(lambda _: web.Response(status=307, headers={"Location": "/elsewhere"}))
    async with over(line) as hongbao:
        with pytest.raises(InvalidRequest, match="http_307"):
            await hongbao.user("t").balance_fen()
    assert len(line.asked) == 1


async def test_a_call_that_is_given_up_is_no_success() -> None:
    """Whoever measures hears that its caller went away."""
    heard: list[Attempt] = []
    async with over(Line(silent), on_attempt=heard.append) as hongbao:
        calling = asyncio.ensure_future(hongbao.user("t").balance_fen())
        await asyncio.sleep(0.1)
        calling.cancel()
        await asyncio.wait({calling})
    assert [one.code for one in heard] == ["canceled"]


async def test_a_stream_that_begins_anew_tells_nothing_twice() -> None:
    """The server begins with the newest claims; what was told before is left out, and so is a change without news."""

    def told(envelope: int, *seqs: int, status: str = "open") -> bytes:
        claims = ",".join(
            f'{{"seq":{seq},"user":"u{seq}","amount_fen":1,"claimed_at":"2026-11-26T00:00:00Z"}}' for seq in seqs
        )
        count = max(seqs, default=-1) + 1
        return (
            f'event: envelope\nid: {envelope}.{count}.{status}\ndata: {{"envelope_id":"{envelope}","status":"{status}",'
            f'"count":3,"claimed_count":{count},"claimed_fen":{count},"claims":[{claims}]}}\n\n'
        ).encode()

    streams = iter(
        [
            told(1, 0) + told(2),
            told(1, 0) + told(2, 0),
            told(1, 0, 1, 2, status="sold_out") + told(2, 0, status="canceled"),
        ]
    )

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"retry: 1\n\n" + next(streams))
        return response

    async with over(Line(stream)) as hongbao, asyncio.timeout(20):
        seen = [
            (change.envelope_id, change.status, [claim.seq for claim in change.claims])
            async for change in hongbao.user("t").watch("1", "2")
        ]
    assert seen == [
        ("1", "open", [0]),
        ("2", "open", []),
        ("2", "open", [0]),
        ("1", "sold_out", [1, 2]),
        ("2", "canceled", []),
    ]


async def test_a_list_that_is_not_whole_says_so() -> None:
    """All that could be read comes first: an app must not take what is missing for what is not there."""
    item = {"envelope_id": "1", "at": "2026-11-26T00:00:00Z", "status": "open"}
    page = {"items": [item], "next_cursor": None, "incomplete": True}
    line, seen = Line(lambda _: web.json_response(page)), []

    async def look(hongbao: Hongbao) -> None:
        async for one in hongbao.user("t").waiting():
            seen.append(one.envelope_id)  # noqa: PERF401 - what came before the error counts

    async with over(line) as hongbao:
        with pytest.raises(TryLater, match="incomplete"):
            await look(hongbao)
    assert seen == ["1"]


async def test_a_token_that_cannot_be_renewed_hides_no_outcome() -> None:
    """A create whose first attempt had no answer stays unknown, with its key, whatever the token's function raises."""
    given = iter(["first"])

    def token() -> str:
        try:
            return next(given)
        except StopIteration:
            raise ConnectionError("the tokens' service is away") from None

    line = Line(hang_up, refuse(401, "token_expired", "never"))
    async with over(line) as hongbao:
        with pytest.raises(OutcomeUnknown, match=r"no answer.*service is away") as caught:
            await hongbao.user(token).create(total_fen=1, count=1)
        assert caught.value.idempotency_key == line.asked[0].headers["Idempotency-Key"]
        given = iter(["first"])
        with pytest.raises(ConnectionError, match="service is away"):
            await hongbao.user(token).balance_fen()


async def test_a_player_who_cannot_be_signed_in_again_hides_no_outcome() -> None:
    """The refusal of the new token is no refusal of the create."""

    def answer(request: web.Request) -> Any:
        if request.path == "/v1/play/token":
            if creates:
                return refuse(503, "busy", "later")(request)
            return web.json_response({"user": "alice", "token": "t", "expires_at": "2026-11-26T00:00:00Z"})
        creates.append(request)
        return hang_up(request) if len(creates) == 1 else refuse(401, "token_expired", "never")(request)

    creates: list[web.Request] = []
    async with over(Line(answer), Patience(attempts=2, first_s=0.001)) as hongbao:
        with pytest.raises(OutcomeUnknown) as caught:
            await hongbao.play("alice").create(total_fen=1, count=1)
    assert caught.value.idempotency_key == creates[0].headers["Idempotency-Key"]


@pytest.mark.parametrize("body", [b'{"detail":"Zeit\xfcberschreitung"}', b'{"a":' + b"[" * 100_000])
@pytest.mark.parametrize("status", [200, 502])
async def test_bytes_that_are_no_json_are_no_answer(body: bytes, status: int) -> None:
    """A create is repeated with its key, and its outcome is unknown."""
    line = Line(lambda _: web.Response(body=body, status=status), made)
    async with over(line) as hongbao:
        assert (await hongbao.user("t").create(total_fen=1, count=1)).envelope_id == "1"
    async with over(Line(lambda _: web.Response(body=body, status=status)), NO_PATIENCE) as hongbao:
        with pytest.raises(OutcomeUnknown) as caught:
            await hongbao.user("t").create(total_fen=1, count=1)
    assert caught.value.idempotency_key


async def test_an_empty_key_is_no_key_of_its_own() -> None:
    """A variable that is not set must not become another key with each call: the gateway refuses it."""
    line = Line(made)
    async with over(line) as hongbao:
        await hongbao.user("t").create(total_fen=1, count=1, idempotency_key="")
    assert [one.headers["Idempotency-Key"] for one in line.asked] == [""]


async def test_a_token_that_can_be_no_header_is_an_error_everywhere() -> None:
    """Also of a watch, which waits out all that may pass."""
    line = Line(fine)
    async with over(line) as hongbao, asyncio.timeout(20):
        for token in ("a\nb", "红包"):
            user = hongbao.user(lambda token=token: token)
            with pytest.raises(ValueError, match="printable ASCII"):
                await user.balance_fen()
            with pytest.raises(ValueError, match="printable ASCII"):
                _ = [one async for one in user.watch("1")]
    assert not line.asked


async def test_what_was_seen_of_another_envelope_is_not_this_one() -> None:
    """A version does not name its envelope."""
    first = {**ENVELOPE, "claimed_count": 0, "claimed_fen": 0, "claims": [], "next_cursor": None}
    versions: list[str | None] = []

    def answer(request: web.Request) -> web.Response:
        versions.append(request.headers.get("If-None-Match"))
        if versions[-1]:
            return web.Response(status=304)
        return web.json_response({**first, "envelope_id": request.path.rpartition("/")[2]}, headers={"ETag": '"1"'})

    async with over(Line(answer)) as hongbao:
        user = hongbao.user("t")
        seen = await user.detail("1")
        assert await user.detail("1", seen=seen) is seen
        assert (await user.detail("2", seen=seen)).envelope_id == "2"
    assert versions == [None, '"1"', None]


async def test_a_session_of_ones_own_may_raise_for_status() -> None:
    """It does so for its own requests; a refusal here stays what the gateway says."""
    line = Line(refuse(409, "insufficient_funds", "never"))
    async with aiohttp.ClientSession(raise_for_status=True) as session, over(line, session=session) as hongbao:
        with pytest.raises(InsufficientFunds):
            await hongbao.user("t").create(total_fen=1, count=1)
        with pytest.raises(Conflict):
            _ = [one async for one in hongbao.user("t").watch("1")]
    assert len(line.asked) == 2


async def test_a_stream_that_falls_back_tells_nothing_twice() -> None:
    """A server that lags has an older state than was told; what follows is told from where it was."""

    def told(count: int, status: str = "open") -> bytes:
        claims = ",".join(
            f'{{"seq":{seq},"user":"u{seq}","amount_fen":1,"claimed_at":"2026-11-26T00:00:00Z"}}'
            for seq in range(count)
        )
        return (
            f'event: envelope\nid: {count}\ndata: {{"envelope_id":"1","status":"{status}","count":9,'
            f'"claimed_count":{count},"claimed_fen":{count},"claims":[{claims}]}}\n\n'
        ).encode()

    streams = iter([told(3), told(1), told(4), told(2, "canceled")])

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"retry: 1\n\n" + next(streams))
        return response

    async with over(Line(stream)) as hongbao, asyncio.timeout(20):
        seen = [
            (change.status, [claim.seq for claim in change.claims]) async for change in hongbao.user("t").watch("1")
        ]
    assert seen == [("open", [0, 1, 2]), ("open", [3]), ("canceled", [])]


@pytest.mark.parametrize("retry", [b"9" * 400, b"86400000"])
async def test_no_stream_says_to_wait_for_a_day(retry: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by the stream itself nor by a proxy's header."""
    slept: list[float] = []
    sleep = asyncio.sleep

    async def sleeps(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"retry: " + retry + b"\n\n")
        return response

    line = Line(stream, refuse(503, "busy", "later", Retry_After="86400"), refuse(404, "not_found", "never"))
    async with over(line) as hongbao:
        monkeypatch.setattr(live.asyncio, "sleep", sleeps)
        with pytest.raises(ApiError, match="not_found"):
            _ = [one async for one in hongbao.user("t").watch("1")]
    assert max(slept) <= 1.5 * live.LONGEST_ASKED_S
    assert len(line.asked) == 3


async def test_without_a_gateway_the_first_stream_is_given_up() -> None:
    """A watch with a wrong address says so, as any call does; one that has been accepted once goes on."""
    nowhere = f"http://127.0.0.1:{unused_port()}"
    quick = Patience(attempts=3, first_s=0.001)
    async with Hongbao(nowhere, patience=quick) as hongbao, asyncio.timeout(20):
        with pytest.raises(Unreachable, match=re.escape(f"no connection to {nowhere}")):
            _ = [one async for one in hongbao.user("t").watch("1")]

    async def accepted(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"retry: 1\n\n")
        return response

    busy = [refuse(503, "busy", "later") for _ in range(5)]
    line = Line(*busy[:2], accepted, *busy, refuse(404, "not_found", "never"))
    async with over(line, patience=quick) as hongbao, asyncio.timeout(20):
        with pytest.raises(NotFound):
            _ = [one async for one in hongbao.user("t").watch("1")]
    assert len(line.asked) == 9
    line = Line(*busy)
    async with over(line, patience=quick) as hongbao, asyncio.timeout(20):
        with pytest.raises(TryLater):
            _ = [one async for one in hongbao.user("t").watch("1")]
    assert len(line.asked) == 3
