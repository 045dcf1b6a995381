"""Envelopes of cold days: every request has a reply, whatever a row says and however many ask."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from envelope.claim_log import ClaimLog
from errors import Unavailable
from setnode.activation.cold import ColdEnvelopes
from setnode.actors.request import Action, LocalCaller, Request
from setnode.limits import MAILBOX
from tests.unit.envelope.test_ladder import OPENS, terms

FAR = 400_000_000_000_000
"""An instant of the year 14645, which Postgres can store and Python cannot write."""


class Context:
    tally = [0] * 50

    def now_ms(self) -> int:
        return OPENS

    def loop_time(self) -> float:
        return asyncio.get_running_loop().time()


@asynccontextmanager
async def answering(log: ClaimLog, gate: asyncio.Event) -> AsyncIterator[ColdEnvelopes]:
    """What reads cold envelopes, and finds this log once the gate is open."""
    nothing: Any = None
    context: Any = Context()
    cold = ColdEnvelopes(nothing, nothing, context)

    async def find(_: int, *, may_verify: bool = True) -> ClaimLog:
        del may_verify
        await gate.wait()
        return log

    cold.find = find  # type: ignore[method-assign]
    running = asyncio.ensure_future(cold.run())
    yield cold
    assert not running.done(), "the server would end with it"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def asked(heard: list[Any], number: int) -> Request:
    now = asyncio.get_running_loop().time()
    return Request(Action.DETAIL, "bob", True, None, LocalCaller(lambda *said: heard.append(said)), number, now)


async def test_a_row_that_cannot_be_shown_fails_its_own_requests() -> None:
    log = ClaimLog(terms())
    log.restore([(0, "open", "bob", log.amounts[0], FAR)])
    gate, heard = asyncio.Event(), list[Any]()
    gate.set()
    async with answering(log, gate) as cold, asyncio.timeout(20):
        for number in range(2):
            cold.answer(1, [asked(heard, number)])
            while len(heard) == number:
                await asyncio.sleep(0.01)
    assert all(isinstance(said[-1], Exception) for said in heard)


async def test_not_all_who_ask_for_one_envelope_are_kept() -> None:
    """While its archive is verified, or a bucket hangs: as many as an actor would keep."""
    gate, heard = asyncio.Event(), list[Any]()
    async with answering(ClaimLog(terms()), gate) as cold, asyncio.timeout(20):
        cold.answer(1, [asked(heard, number) for number in range(MAILBOX + 3)])
        assert [(said[0], said[-1].code) for said in heard] == [(MAILBOX + n, "busy") for n in range(3)]
        assert isinstance(heard[0][-1], Unavailable)
        gate.set()
        while len(heard) < MAILBOX + 3:
            await asyncio.sleep(0.01)
