import asyncio
import itertools
import random
import time

import pytest

from errors import Unavailable
from loadtest.openloop.generator import Generator
from loadtest.openloop.opens import Envelope, Guests
from loadtest.openloop.schedule import Arrivals, schedule

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


def times(arrivals, rate=1_000.0, seconds=20.0):
    return list(schedule(arrivals, rate, seconds, random.Random(3)))


def test_even_arrivals():
    """There are rate x seconds of them, with the same gap between all."""
    found = times(Arrivals.EVEN)
    assert len(found) == 20_000
    assert found[0] == 0.0
    assert all(abs(b - a - 0.001) < 1e-9 for a, b in itertools.pairwise(found))
    assert found[-1] < 20.0


def test_poisson_arrivals():
    """They ascend; their number and the variance of counts per 10 ms are those of a Poisson process (both 10)."""
    found = times(Arrivals.POISSON)
    assert all(a < b for a, b in itertools.pairwise(found))
    assert found[-1] < 20.0
    assert abs(len(found) - 20_000) < 5 * 20_000**0.5
    counts = [0] * 2_000
    for at in found:
        counts[int(at * 100)] += 1
    variance = sum((one - 10) ** 2 for one in counts) / len(counts)
    assert 8.5 < variance < 11.5


def test_opens_go_round_robin():
    """Every user opens every envelope once, and number N is the Nth request that is sent."""
    one = Guests([Envelope("11", "s1"), Envelope("12", "s2")], ["a", "b"], ["ta", "tb"])
    assert [one.of(number) for number in range(one.opens)] == [("11", "a"), ("12", "a"), ("11", "b"), ("12", "b")]
    whole = list(one.requests())
    assert len(whole) == 4
    assert whole[3].startswith(b"POST /v1/envelopes/12/open ")
    assert b"Bearer tb\r\n" in whole[3]
    assert b"X-Share-Token: s2\r\n" in whole[3]
    assert list(one.requests(3)) == whole[3:]


class Server:
    """Answers every request after `delay_s`, the first of each connection after `accept_s` more.

    In pieces when `chop`; hangs up instead of answering number `deaf`.
    """

    def __init__(self, delay_s=0.0, *, accept_s=0.0, chop=False, deaf=-1):
        self.delay_s, self.accept_s, self.chop, self.deaf = delay_s, accept_s, chop, deaf
        self.seen = []

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self._server.close()

    async def _serve(self, reader, writer):
        await asyncio.sleep(self.accept_s)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.seen.append(head)
                if len(self.seen) == self.deaf:
                    break
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                for piece in (ANSWER[:20], ANSWER[20:-1], ANSWER[-1:]) if self.chop else (ANSWER,):
                    writer.write(piece)
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


class Ears:
    def __init__(self):
        self.answers = []
        self.losses = []

    def heard(self, number, status, body, due, now):
        self.answers.append((number, status, body, now - due))

    def lost(self, number, reason):
        self.losses.append((number, reason))


def requests(count):
    return iter([b"GET / HTTP/1.1\r\n\r\n"] * count)


@pytest.mark.parametrize("chop", [False, True])
async def test_every_request_is_answered_once(chop):
    """Answers are found whole, in one piece or in several, and belong to their requests."""
    ears = Ears()
    async with Server(chop=chop) as server, Generator(server.url, 4, ears.heard, ears.lost) as generator:
        await generator.open_loop(requests(50), [number / 1_000 for number in range(50)])
    assert sorted(one[0] for one in ears.answers) == list(range(50))
    assert {one[1:3] for one in ears.answers} == {(200, b"{}")}
    assert (generator.sent, generator.unanswered, ears.losses) == (50, 0, [])


async def test_a_slow_server_is_charged_for_those_who_wait():
    """With one connection and 20 ms an answer, ten requests at once take 20, 40, … 200 ms: no omission."""
    ears = Ears()
    async with Server(delay_s=0.02) as server, Generator(server.url, 1, ears.heard, ears.lost) as generator:
        await generator.open_loop(requests(10), [0.0] * 10)
    for number, _, _, took_s in ears.answers:
        assert took_s >= 0.02 * (number + 1) - 0.002


async def test_a_closed_loop_ends_with_its_requests_or_its_time():
    """It sends all when there are few, and stops in time when there are many."""
    ears = Ears()
    async with Server() as server, Generator(server.url, 3, ears.heard, ears.lost) as generator:
        await generator.closed_loop(requests(100), 20.0)
        assert len(ears.answers) == 100
        begun = time.perf_counter()
        await generator.closed_loop(itertools.repeat(b"GET / HTTP/1.1\r\n\r\n"), 0.1)
        assert time.perf_counter() - begun < 5
    assert len(ears.answers) == generator.sent > 100


async def test_a_lost_connection_is_told_and_replaced():
    """Its request counts as lost, all others are answered."""
    ears = Ears()
    async with Server(deaf=5) as server, Generator(server.url, 2, ears.heard, ears.lost) as generator:
        await generator.open_loop(requests(20), [number / 500 for number in range(20)])
    assert len(ears.answers) == 19
    assert [number for number, _ in ears.losses] == [next(iter(set(range(20)) - {one[0] for one in ears.answers}))]


async def test_nobody_is_charged_for_the_time_that_connecting_takes():
    """The kernel connects at once; a run begins when the server itself has answered on every connection."""
    ears = Ears()
    async with (
        Server(accept_s=1.0, delay_s=0.1) as server,
        Generator(server.url, 3, ears.heard, ears.lost) as generator,
    ):
        assert len(server.seen) == 3
        await generator.open_loop(requests(3), [0.0] * 3)
    assert all(took_s < 1.0 for *_, took_s in ears.answers)
    assert len(ears.answers) == generator.sent == 3


async def test_a_server_that_does_not_answer_the_first_request():
    """It counts as one that cannot be connected to."""
    with pytest.raises(Unavailable, match="cannot connect"):
        async with Server(deaf=2) as server, Generator(server.url, 2, Ears().heard, Ears().lost):
            pass


async def test_no_gateway():
    """Where nobody listens the run is refused in a sentence."""
    async with Server() as server:
        url = server.url
    with pytest.raises(Unavailable, match="cannot connect"):
        async with Generator(url, 2, Ears().heard, Ears().lost):
            pass
