"""A watch over a bad line: streams that end, are refused, fall back, or never begin."""

import asyncio
import re

import pytest
from aiohttp import web
from aiohttp.test_utils import unused_port

from client import (
    ApiError,
    Frozen,
    Hongbao,
    NotFound,
    NotSignedIn,
    Patience,
    TryLater,
    Unreachable,
    live,
)
from tests.unit.client.line import (
    Line,
    over,
    refuse,
    telling,
)


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

    stream = telling(streams)
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

    stream = telling(streams)
    async with over(Line(stream)) as hongbao, asyncio.timeout(20):
        seen = [(one.final, one.complete, one.refund_fen) async for one in hongbao.user("t").watch("1")]
    assert seen == [(True, False, None), (True, True, 7)]


async def test_a_quiet_stream_outlives_many_tokens() -> None:
    """Nothing happens for hours, and each token ends: every one is followed by the next, at the server's pace."""
    ended = b'retry: 1\n\nevent: end\ndata: {"reason":"token_expired"}\n\n'
    last = (
        b'event: envelope\nid: 1.1.sold_out\ndata: {"envelope_id":"1","status":"sold_out","count":1,"claimed_count":1,'
        b'"claimed_fen":1,"claims":[]}\n\n'
    )
    streams = iter([*[ended] * 12, last])

    stream = telling(streams)
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
