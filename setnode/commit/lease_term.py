"""Says how long a lease may be kept for transactions that follow each other."""

import asyncio
from collections.abc import Callable

from setnode.limits import LEASE_TERM_S


class LeaseTerm:
    """The term of one lease; after it the lease must be released.

    It is extended by LEASE_TERM_S at a time, up to `most_s` in all, while `has_room` says that no other server waits.
    `has_room` is asked beside the transactions, half a term ahead, so that an extension makes no transaction wait.
    """

    def __init__(self, has_room: Callable[[], asyncio.Future[bool]], now: float, most_s: float) -> None:
        self._has_room = has_room
        self._end = now + most_s
        self._answer: asyncio.Future[bool] | None = None
        self._begin(now)

    def over(self, now: float) -> bool:
        """Say whether the lease must be released; call it between two transactions, with the loop's time."""
        if now < self._ask_at:
            return False
        if now >= self._end:
            return True
        if self._answer is None:
            self._answer = self._has_room()
        if now < self._over_at:
            return False
        if not self._answer.done() or not self._answer.result():
            return True
        self._begin(now)
        return False

    def _begin(self, now: float) -> None:
        self._over_at = now + LEASE_TERM_S
        # The last term cannot be extended, so `has_room` is not asked.
        self._ask_at = now + LEASE_TERM_S / 2 if self._over_at < self._end else self._end
        self._answer = None
