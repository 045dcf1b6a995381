"""Lets a few requests a loop turn begin, in order of arrival, so that those behind us need not wait for all of them.

Clients answered together ask again together. Begun in one turn of the loop, hundreds of requests would all be read and
checked before the first of them is sent to its SET, and gateway, link, setnode and Postgres would work one after the
other instead of side by side: on two cores a third of the CPU stood idle while 256 connections waited.
"""

import asyncio
from collections import deque


class Turnstile:
    """`enter` returns at once while this turn has room, else in one of the next turns."""

    __slots__ = ("_left", "_loop", "_per_turn", "_waiting")

    def __init__(self, per_turn: int, loop: asyncio.AbstractEventLoop) -> None:
        self._per_turn = self._left = per_turn
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()

    def enter(self) -> asyncio.Future[None] | None:
        """Return None for whoever may begin, or what to await first."""
        if self._left:
            if self._left == self._per_turn:
                self._loop.call_soon(self._next_turn)
            self._left -= 1
            return None
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(turn)
        return turn

    def _next_turn(self) -> None:
        self._left = self._per_turn
        while self._waiting and self._left:
            turn = self._waiting.popleft()
            # Whoever was cancelled, by a stop that waits no longer, takes no place. To hang up cancels nobody.
            if not turn.done():
                turn.set_result(None)
                self._left -= 1
        if self._left < self._per_turn:
            self._loop.call_soon(self._next_turn)
