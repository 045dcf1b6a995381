"""Bounds the requests that begin in one turn of the event loop, so that the first are sent to their SETs early.

Clients that are answered together send their next requests together. If hundreds of requests began in one turn, all
would be parsed before the first is sent to its SET; gateway, link, setnode and Postgres would then work one after the
other instead of side by side (docs/decisions/0013-a-few-requests-a-turn.md).
"""

import asyncio
from collections import deque


class Pacer:
    """Admits `per_turn` requests in each turn of the loop, in order of arrival; the others wait for the next turns."""

    __slots__ = ("_left", "_loop", "_per_turn", "_waiting")

    def __init__(self, per_turn: int, loop: asyncio.AbstractEventLoop) -> None:
        self._per_turn = self._left = per_turn
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()

    def admit(self) -> asyncio.Future[None] | None:
        """Return None if the request may begin now, else a future that is done once it may."""
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
            # Only a shutdown that has run out of time cancels waiting futures; a client that hangs up does not.
            if not turn.done():
                turn.set_result(None)
                self._left -= 1
        if self._left < self._per_turn:
            self._loop.call_soon(self._next_turn)
