"""A link under faults: what fails, fails alone, and a link whose part has failed is made anew."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from errors import Refused, Unavailable
from tests.integration.gateway.fixtures import FakePeer, silent
from tests.link_keys import GATEWAY_KEY
from wire import link as link_module
from wire import server as server_module
from wire.limits import ROW_BYTES
from wire.link import Link, NotSent
from wire.messages import Op, Status
from wire.server import Caller

WAIT_S = 20.0


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not holds():
            await asyncio.sleep(0.01)


def echo(caller: Caller, number: int, op: int, args: list[Any]) -> None:
    """Reply with the arguments; raise an argument that is the name of an exception."""
    faults = {"IndexError": IndexError, "RuntimeError": RuntimeError, "KeyError": KeyError}
    if args[0] in faults:
        raise faults[args[0]]("a fault of ours")
    if args[0] == "opaque":
        caller.reply(number, object())
    elif args[0] == "cyclic":
        cycle: list[Any] = []
        cycle.append(cycle)
        caller.reply(number, cycle)
    else:
        caller.reply(number, *args)


@contextlib.asynccontextmanager
async def link_to(url: str) -> AsyncIterator[Link]:
    """A link that is up and kept up."""
    link = Link("peer", url, key=GATEWAY_KEY)
    maintaining = asyncio.ensure_future(link.maintain())
    try:
        await until(lambda: link.up)
        yield link
    finally:
        maintaining.cancel()
        await asyncio.wait({maintaining})


@contextlib.asynccontextmanager
async def linked(answer: Any = echo) -> AsyncIterator[tuple[Link, FakePeer]]:
    peer = FakePeer(answer)
    await peer.start()
    try:
        async with link_to(peer.url) as link:
            yield link, peer
    finally:
        await peer.stop()


@pytest.mark.parametrize("fault", ["IndexError", "RuntimeError", "KeyError", "opaque", "cyclic"])
async def test_a_request_that_fails_unexpectedly_fails_alone(fault: str) -> None:
    """Its handler raises, or its reply cannot be encoded: it ends with `internal_error`, the others with replies."""
    async with linked() as (link, _):
        socket = link._socket
        calls = [link.call(Op.GRAB, each) for each in ("before", fault, "behind")]
        before, failed, behind = await asyncio.gather(*calls, return_exceptions=True)
        assert (before, behind) == (["before"], ["behind"])
        assert isinstance(failed, Unavailable)
        assert (failed.code, failed.outcome_known) == ("internal_error", False)
        assert await link.call(Op.GRAB, "later") == ["later"]
        assert link._socket is socket


async def test_a_calling_end_whose_writer_fails_connects_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call is taken for a writer that has ended: the connection ends with it, and the next one serves."""
    async with linked() as (link, _):
        socket = link._socket
        with monkeypatch.context() as patch:
            patch.setattr(link, "_frame", lambda _: 1 // 0)
            with pytest.raises(Unavailable) as caught:
                await asyncio.wait_for(link.call(Op.GRAB, "lost"), 2)
            assert caught.value.code == "outcome_unknown"
        await until(lambda: link.up and link._socket is not socket)
        assert await link.call(Op.GRAB, "again") == ["again"]


async def test_an_answering_end_whose_writer_fails_closes_the_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caller hears of it at once and connects anew, instead of waiting for replies that nobody sends."""
    async with linked() as (link, _):
        socket = link._socket
        with monkeypatch.context() as patch:
            patch.setattr(server_module, "frames", lambda *_: 1 // 0)
            with pytest.raises(Unavailable):
                await asyncio.wait_for(link.call(Op.GRAB, "lost"), 2)
        await until(lambda: link.up and link._socket is not socket)
        assert await link.call(Op.GRAB, "again") == ["again"]


async def test_calls_that_were_still_queued_are_told_as_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection lost before their frame was begun: the calls had no effect, and the error says so."""
    monkeypatch.setattr(link_module, "GATHER_S", 3600.0)
    monkeypatch.setattr(link_module, "EAGER_CALLS", 1)
    async with linked(silent) as (link, peer):
        sent = link.call(Op.GRAB, "sent")
        await until(lambda: peer.asked)
        queued = [link.call(Op.GRAB, "queued") for _ in range(3)]
        await peer.stop()
        first, *others = await asyncio.gather(sent, *queued, return_exceptions=True)
        assert (first.code, first.outcome_known) == ("outcome_unknown", False)
        assert [(type(one), one.code, one.outcome_known) for one in others] == [(NotSent, "peer_down", True)] * 3
        assert [args for _, args in peer.asked] == [["sent"]]


async def test_what_the_other_end_says_of_its_peers_is_never_our_own_word() -> None:
    """A reply with the code `peer_down` is an error of the other end, not NotSent."""

    def away(*_: Any) -> None:
        raise Unavailable("peer_down", "my own peer is away")

    async with linked(away) as (link, _):
        with pytest.raises(Unavailable) as caught:
            await link.call(Op.GRAB, "x")
        assert not isinstance(caught.value, NotSent)


async def test_a_caller_that_does_not_read_takes_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above OUTBOX_BYTES of JSON a reply becomes `outcome_unknown`; small replies are sent; room comes back."""
    monkeypatch.setattr(server_module, "OUTBOX_BYTES", 1_000)
    caller = Caller("slow")
    for number in range(3):
        caller.reply(number, b"x" * 400, True)
    caller.reply(3, 0, 1, 2)
    statuses = [reply[1] for reply in caller._outbox]
    assert statuses == [Status.OK, Status.OK, Status.UNAVAILABLE, Status.OK]
    assert caller._outbox[2][2] == "outcome_unknown"

    class Socket:
        frames = 0

        async def send_bytes(self, _: bytes) -> None:
            self.frames += 1

    socket = Socket()
    writing = asyncio.ensure_future(caller.write(socket))  # type: ignore[arg-type]
    await until(lambda: socket.frames)
    await asyncio.sleep(0)
    caller.reply(4, b"x" * 900, True)
    assert caller._outbox[0][1] == Status.OK
    writing.cancel()
    await asyncio.wait({writing})


async def test_lists_for_a_caller_that_does_not_read_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of a wallet count by their rows."""
    monkeypatch.setattr(server_module, "OUTBOX_BYTES", 10 * ROW_BYTES)
    caller = Caller("slow")
    for number in range(3):
        caller.reply(number, [["order", 1, 2]] * 4)
    assert [reply[1] for reply in caller._outbox] == [Status.OK, Status.OK, Status.UNAVAILABLE]


async def test_nothing_is_kept_for_a_caller_that_has_gone() -> None:
    """Replies and errors to it are dropped, and so is what it has not read."""
    caller = Caller("gone")
    caller.reply(1, 0)
    caller.leave()
    caller.reply(2, 0)
    caller.fail(3, Refused("not_found", "no such envelope"))
    assert caller._outbox == []
