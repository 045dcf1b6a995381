"""A call over a bad line: what is repeated, with what, how often, and what is not."""

import asyncio
import math
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from client import (
    NO_PATIENCE,
    ApiError,
    Attempt,
    Conflict,
    Hongbao,
    InsufficientFunds,
    InvalidRequest,
    NotSignedIn,
    OutcomeUnknown,
    Patience,
    RetryBudget,
    TryLater,
    Unreachable,
)
from tests.unit.client.line import (
    ENVELOPE,
    Answer,
    Line,
    break_off,
    fine,
    hang_up,
    made,
    over,
    page,
    refuse,
    silent,
)


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


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "localhost", "", "ws://127.0.0.1:8080"])
def test_a_url_without_http_is_refused_at_once(url: str) -> None:
    """Not after five attempts that nobody answered."""
    with pytest.raises(ValueError, match="begins with http://"):
        Hongbao(url)


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
