"""The people of the fault tests notice what they are there to notice: a gateway that contradicts itself, or is away."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from client import Envelope
from tests.faults.stack_fixtures import Crowd, Running
from tests.integration.gateway.fixtures import SHOWN

ENVELOPE = msgspec.convert({**SHOWN, "envelope_id": "1", "sender": "ann", "share_id": "A1"}, Envelope)
BUSY = (503, {"code": "busy", "retry": "later"})


async def told(*answers: tuple[int, Any], patience_s: float = 30.0) -> tuple[Crowd, int]:
    """Have bob open one envelope until all of these were given; return the crowd, and how many were asked for."""
    left, asked = iter(answers), 0

    async def answer(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        status, body = next(left, answers[-1])
        return web.json_response(body, status=status, headers={"Retry-After": "60"} if status == 503 else {})

    app = web.Application()
    app.router.add_post("/v1/envelopes/A1/open", answer)
    async with TestServer(app) as server:
        access = SimpleNamespace(token=lambda user: user, gateway_url=str(server.make_url("/")))
        crowd = Crowd(cast("Running", SimpleNamespace(access=access)), seed=1, patience_s=patience_s)
        async with crowd:
            while asked < len(answers):
                await crowd.tap("bob", ENVELOPE)
    return crowd, asked


def won(fen: int, result: str = "opened") -> tuple[int, Any]:
    return 200, {"result": result, "amount_fen": fen, "seq": 0, "last": False}


async def test_they_repeat_at_once_and_without_a_budget() -> None:
    """Twenty refusals that ask for a minute each are one call, and one answer."""
    crowd, asked = await told(*[BUSY] * 20, won(7), won(7, "already_opened"))
    assert (crowd.contradictions, crowd.answers, asked) == ([], 2, 22)
    assert crowd.opened == {("1", "bob"): 7}


async def test_their_patience_ends() -> None:
    """A system that never answers well fails the test, whoever was asking."""
    with pytest.raises(AssertionError, match="no answer but 503 busy"):
        await told(BUSY, BUSY, BUSY, patience_s=0.0)


@pytest.mark.parametrize(
    ("second", "noticed"),
    [
        (won(8, "already_opened"), "bob heard 7 and 8 of 1"),
        ((200, {"result": "sold_out"}), "bob had won 1 and then heard sold_out"),
        ((409, {"code": "day_closed", "retry": "never"}), "open: 409 day_closed"),
        ((200, {"result": "already_opened"}), "bob was not told how much of 1"),
    ],
)
async def test_a_contradiction_is_noticed(second: tuple[int, Any], noticed: str) -> None:
    """Two amounts, a win that is taken back, a refusal that nobody expects: each fails the check."""
    crowd, _ = await told(won(7), second)
    assert crowd.contradictions == [noticed]
    with pytest.raises(AssertionError):
        await crowd.check()


async def test_a_frozen_envelope_ends_the_test_at_once() -> None:
    """Records that do not add up are not waited out."""
    with pytest.raises(AssertionError, match="500 invariant_broken"):
        await told((500, {"code": "invariant_broken", "retry": "never"}), won(7))
