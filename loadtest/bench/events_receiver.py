"""A receiver of webhooks in a process of its own: counts what comes, by event, and how late it is.

`python -m loadtest.bench.events_receiver` prints its address, and for each line on standard input a JSON object:
events, repeats, those that came after a later one of their envelope, shares opened, and percentiles of the delay.
"""

import asyncio
import sys
import time
from datetime import datetime

import msgspec
from aiohttp import web

from loadtest.histogram import Histogram
from runtime.priority import give_way

_BACKLOG = 1_024


class Told(msgspec.Struct, frozen=True):
    """What is read of an event."""

    subject: str
    type: str
    time: str
    sequence: str = ""


class Counts(msgspec.Struct):
    """`disordered`: events that came after a later one of their envelope, for the first time. Delays in ms."""

    events: int = 0
    repeats: int = 0
    disordered: int = 0
    opened: int = 0
    calls: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    max_ms: float = 0.0


class Book:
    """By envelope the number of the last event, because events of one envelope come in order."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.delays = Histogram()
        self._last: dict[str, int] = {}
        self._late: set[tuple[str, int]] = set()

    def take(self, told: Told, now_s: float) -> None:
        """Count one event."""
        number, last = int(told.sequence or 0), self._last.get(told.subject, 0)
        if number > last:
            for missed in range(last + 1, number) if last else ():
                self._late.add((told.subject, missed))
            self._last[told.subject] = number
        elif (told.subject, number) in self._late:
            self._late.remove((told.subject, number))
            self.counts.disordered += 1
        else:
            self.counts.repeats += 1
            return
        self.counts.events += 1
        self.counts.opened += told.type == "share.opened"
        self.delays.record(max(0.0, now_s - datetime.fromisoformat(told.time).timestamp()) * 1000)

    def sum(self) -> Counts:
        """Return the counts so far."""
        if self.counts.events:
            self.counts.p50_ms, self.counts.p99_ms = self.delays.percentile(50), self.delays.percentile(99)
            self.counts.max_ms = self.delays.max_ms
        return self.counts


_one, _many = msgspec.json.Decoder(Told).decode, msgspec.json.Decoder(list[Told]).decode


async def receive() -> None:
    """Receive until standard input ends."""
    book = Book()

    async def handle(request: web.BaseRequest) -> web.Response:
        body = await request.read()
        now = time.time()
        book.counts.calls += 1
        for told in _many(body) if body.startswith(b"[") else (_one(body),):
            book.take(told, now)
        return web.Response(status=204)

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=_BACKLOG).start()
    _say(f"http://127.0.0.1:{runner.addresses[0][1]}/")
    while line := await asyncio.to_thread(sys.stdin.readline):
        if line.startswith("again"):
            book = Book()
        _say(msgspec.json.encode(book.sum()).decode())
    await runner.cleanup()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    give_way(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    asyncio.run(receive())
