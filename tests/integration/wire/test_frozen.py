"""A peer that is connected and reads nothing: what the calling end keeps for it, and how soon it is given up."""

import asyncio
import contextlib
import resource
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from errors import Unavailable
from tests.integration.wire.test_link import link_to, linked, until
from wire import link as link_module
from wire.limits import QUEUED_BYTES, SILENT_S
from wire.link import Link, NotSent
from wire.messages import Op

CALL = 60_000
"""Characters of one call: a create with as many guests as there may be."""
KERNEL_BYTES = 12_000_000
"""What both ends' kernels and the frame that is being sent may take at most, uncounted."""
SLACK = 16_000_000
GIVEN_UP_S = 2.0
"""From the last word of a server until its link is given up: then the next server serves."""


@contextlib.asynccontextmanager
async def another_process() -> AsyncIterator[tuple[Link, asyncio.subprocess.Process]]:
    peer = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.integration.wire.echoing", stdout=asyncio.subprocess.PIPE
    )
    assert peer.stdout is not None
    try:
        async with link_to(f"http://127.0.0.1:{int(await peer.stdout.readline())}") as link:
            yield link, peer
    finally:
        with contextlib.suppress(ProcessLookupError):
            peer.kill()
        await peer.wait()


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def calls_until_refused(link: Link, most: int) -> tuple[list[asyncio.Future[list[object]]], Unavailable | None]:
    """Call until the link says that it is busy, at most `most` times; returns the calls, and the refusal."""
    made: list[asyncio.Future[list[object]]] = []
    for number in range(most):
        try:
            made.append(link.call(Op.GRAB, str(number).zfill(CALL)))
        except Unavailable as refusal:
            return made, refusal
        # As many as come in one turn of the loop, and time for the writer.
        if not number % 16:
            await asyncio.sleep(0.002)
    return made, None


async def test_what_is_queued_for_a_frozen_peer_is_bounded_in_bytes() -> None:
    """Above QUEUED_BYTES a call is refused as `busy` and not sent; once it reads again the others are answered."""
    async with another_process() as (link, peer):
        assert await link.call(Op.GRAB, "warm") == [4]
        before = resident()
        peer.send_signal(signal.SIGSTOP)
        try:
            made, refusal = await calls_until_refused(link, 5_000)
            grown = resident() - before
        finally:
            peer.send_signal(signal.SIGCONT)
        assert refusal is not None
        assert (refusal.code, refusal.outcome_known) == ("busy", True)
        assert not isinstance(refusal, NotSent)
        assert QUEUED_BYTES - CALL < len(made) * CALL < QUEUED_BYTES + KERNEL_BYTES
        assert grown < QUEUED_BYTES + KERNEL_BYTES + SLACK
        assert await asyncio.gather(*made) == [[CALL]] * len(made)
        # There is room again, for as much as before.
        assert await asyncio.gather(*(link.call(Op.GRAB, "x" * CALL) for _ in range(100))) == [[CALL]] * 100
        assert link._queued_bytes == 0


async def test_a_small_call_counts_with_what_it_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call to a frozen peer counts for more than its few bytes: the objects that it is made of stay as long."""
    monkeypatch.setattr(link_module, "QUEUED_BYTES", 1_000_000)
    async with another_process() as (link, peer):
        peer.send_signal(signal.SIGSTOP)
        try:
            await calls_until_refused(link, 5_000)
            await asyncio.sleep(0.1)
            small = 0
            with contextlib.suppress(Unavailable):
                while small < 20_000:
                    link.call(Op.GRAB, "x")
                    small += 1
            assert small <= 1_000
        finally:
            peer.send_signal(signal.SIGCONT)


async def test_a_lost_connection_takes_its_queue_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that dies while it is frozen: what was queued for it counts no more, and was not sent."""
    monkeypatch.setattr(link_module, "QUEUED_BYTES", 1_000_000)
    async with another_process() as (link, peer):
        peer.send_signal(signal.SIGSTOP)
        made, refusal = await calls_until_refused(link, 5_000)
        assert refusal is not None
        peer.kill()
        ended = await asyncio.gather(*made, return_exceptions=True)
        assert isinstance(ended[-1], NotSent)
        await until(lambda: not link.up)
        assert link._queued_bytes == 0


async def test_a_frozen_server_is_given_up_by_its_silence() -> None:
    """Within two seconds the calls that wait are told `outcome_unknown`, new ones go elsewhere; thawed, it is back."""
    async with another_process() as (link, peer):
        loop = asyncio.get_running_loop()
        assert await link.call(Op.GRAB, "warm") == [4]
        peer.send_signal(signal.SIGSTOP)
        frozen_at = loop.time()
        try:
            with pytest.raises(Unavailable) as told:
                await link.call(Op.GRAB, "frozen")
            assert (told.value.code, told.value.outcome_known) == ("outcome_unknown", False)
            assert loop.time() - frozen_at < GIVEN_UP_S
            with pytest.raises(NotSent):
                link.call(Op.GRAB, "next")
        finally:
            peer.send_signal(signal.SIGCONT)
        await until(lambda: link.up)
        assert await link.call(Op.GRAB, "thawed") == [6]


async def test_a_server_that_takes_long_to_answer_is_kept() -> None:
    """It says meanwhile that it is there."""
    waiting: list[tuple[Any, int]] = []
    async with linked(lambda caller, number, *_: waiting.append((caller, number))) as (link, _):
        socket, call = link._socket, link.call(Op.GRAB, "slow")
        await asyncio.sleep(2 * SILENT_S)
        ((caller, number),) = waiting
        caller.reply(number, "at last")
        assert await call == ["at last"]
        assert link._socket is socket


async def test_a_server_of_an_older_version_is_kept() -> None:
    """It has never sent a beat, so that its silence says nothing."""
    async with linked() as (link, peer):
        peer.load.callers.clear()
        link._heard.connected()
        socket = link._socket
        await asyncio.sleep(2 * SILENT_S)
        assert await link.call(Op.GRAB, "here") == ["here"]
        assert link._socket is socket


async def test_a_process_that_stood_still_itself_gives_nobody_up() -> None:
    """What came meanwhile lies in its sockets: it is read before anybody is called silent."""
    async with linked() as (link, _), another_process() as (other, _):
        sockets = link._socket, other._socket
        time.sleep(2 * SILENT_S)  # noqa: ASYNC251 - this is the standstill
        await asyncio.sleep(SILENT_S)
        assert (link._socket, other._socket) == sockets
