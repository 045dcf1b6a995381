"""Requests waiting for a transaction: one queue per priority, bounded, first in, first out."""

import asyncio
from collections import deque
from typing import Any

from wallet.draft import Draft


class PendingRequest:
    """A request that has been accepted and not yet answered; `future` carries its reply, `deadline` is loop time."""

    __slots__ = ("deadline", "draft", "future", "lost", "sent")

    def __init__(self, draft: Draft, deadline: float, future: asyncio.Future[Any]) -> None:
        self.draft = draft
        self.deadline = deadline
        self.future = future
        self.sent = False
        """A transaction with it has begun: if its deadline passes, its outcome is unknown."""
        self.lost = False
        """An attempt with it lost its connection: it may have committed, however later attempts end."""


class RequestQueue:
    """Holds at most `queued` orders, of which a batch takes at most `batched`. A create or deposit is one order."""

    def __init__(self, queued: int, batched: int) -> None:
        self.waiting: deque[PendingRequest] = deque()
        self.orders = 0
        self._queued = queued
        self._batched = batched

    def has_room(self, orders: int) -> bool:
        """Say whether a request of so many orders may be queued."""
        return self.orders + orders <= self._queued

    def put(self, pending: PendingRequest) -> None:
        """Append a request; ask `has_room` first."""
        self.waiting.append(pending)
        self.orders += pending.draft.request.size

    def next_batch(self) -> tuple[list[PendingRequest], int]:
        """Remove and return the requests of the next transaction, and their number of orders.

        At least one request, if any waits: a single one may exceed the bound of a batch.
        """
        taken: list[PendingRequest] = []
        orders = 0
        while self.waiting and (not taken or orders + self.waiting[0].draft.request.size <= self._batched):
            taken.append(self.waiting.popleft())
            orders += taken[-1].draft.request.size
        self.orders -= orders
        return taken, orders
