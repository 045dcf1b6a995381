"""Watchers while servers die: each hears of claims that stand, of nothing else, and comes back after a restart.

`Watching` reads streams by itself: it compares what a stream tells anew with what an earlier one told, which the client
leaves out. One more watches by the client, and must not notice that anything died.
"""

import asyncio
import contextlib
import json
import os
import signal
from typing import Any

import aiohttp
import msgspec
import pytest

from client import Change, Claim, Envelope
from local import running as running_file
from tests.faults.stack_fixtures import Crowd, Running, running

__all__ = ["running"]

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]


class Watching:
    """People who watch one envelope, and come back when their stream ends."""

    def __init__(self, one: Running, envelope: Envelope, user: str) -> None:
        self._one, self._envelope, self._user = one, envelope, user
        self.claims: dict[int, tuple[str, int]] = {}
        self.contradictions: list[Any] = []
        self.last: dict[str, Any] = {}
        self.streams = 0

    async def run(self, session: aiohttp.ClientSession) -> None:
        url = f"{self._one.access.gateway_url}/v1/live?envelopes={self._envelope.share_id}"
        headers = {"Authorization": f"Bearer {self._one.access.token(self._user)}"}
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError):
                async with session.get(url, headers=headers) as answer:
                    if answer.status == 200:
                        self.streams += 1
                        await self._read(answer)
            await asyncio.sleep(0.05)

    async def _read(self, answer: aiohttp.ClientResponse) -> None:
        async for line in answer.content:
            if line.startswith(b'data: {"envelope_id"'):
                self._take(json.loads(line[6:]))

    def _take(self, frame: dict[str, Any]) -> None:
        self.last = frame
        for claim in frame["claims"]:
            told = claim["user"], claim["amount_fen"]
            if self.claims.setdefault(claim["seq"], told) != told:
                self.contradictions.append((self.claims[claim["seq"]], told))


async def test_what_watchers_hear_stands(running: Running) -> None:
    """Setnodes and gateways are killed while shares are opened: what was told is in the detail, also the last share."""
    await running.deposit("sender", 1_000_000)
    async with (
        Crowd(running, seed=9) as crowd,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None, sock_read=10)) as session,
    ):
        envelope = await crowd.create("sender", total_fen=60_000, count=60)
        watching = [Watching(running, envelope, f"watcher-{number}") for number in range(4)]
        tasks = [asyncio.ensure_future(one.run(session)) for one in watching]
        by_client = asyncio.ensure_future(watched(crowd, envelope))
        try:
            for number in range(60):
                await crowd.open(f"user-{number}", envelope)
                if number % 15 == 7:
                    kill(running, ("set-1-a", "set-1-b", "set-2-a", "set-2-b", "gateway")[number // 15 :][:2])
                await asyncio.sleep(0.05)
            async with asyncio.timeout(30):
                while any(one.last.get("status") != "sold_out" for one in watching):
                    await asyncio.sleep(0.05)
                changes = await by_client
        finally:
            for task in (*tasks, by_client):
                task.cancel()
        await crowd.check()
        detail = await crowd.detail("sender", envelope)
    stands = {claim.seq: (claim.user, claim.amount_fen) for claim in detail.claims}
    assert len(stands) == 60
    for one in watching:
        assert one.streams > 1
        assert one.contradictions == []
        assert one.claims.items() <= stands.items()
        assert 59 in one.claims
        assert msgspec.convert(one.last["best_luck"], Claim) == detail.best_luck
    heard = [(claim.seq, (claim.user, claim.amount_fen)) for change in changes for claim in change.claims]
    assert [seq for seq, _ in heard] == sorted({seq for seq, _ in heard})
    assert dict(heard).items() <= stands.items()
    assert (heard[-1][0], changes[-1].status, changes[-1].best_luck) == (59, "sold_out", detail.best_luck)
    assert (await running.settled_audit()).holds


async def watched(crowd: Crowd, envelope: Envelope) -> list[Change]:
    """All that the client tells of an envelope, until it is final."""
    return [change async for change in crowd.user("watcher").watch(envelope)]


def kill(one: Running, names: tuple[str, ...]) -> None:
    """Kill these processes of the stack, those that run."""
    for part in parts_of(one):
        if part.name.startswith(names):
            with contextlib.suppress(ProcessLookupError):
                os.kill(part.pid, signal.SIGKILL)


def parts_of(one: Running) -> list[Any]:
    return running_file.load(one.stack.folder.running).parts
