"""How one receiver does, as all lanes of a sink see it."""

import asyncio
import random
import time
from datetime import UTC, datetime

from events.limits import FIRST_PAUSE_S, MAX_PAUSE_S, MAX_RETRY_AFTER_S
from events.outcome import Failed


class Health:
    """`successes` counts calls that were accepted; `failing_since` is None after each of them. `wakes` counts wakes.

    `asked_in_vain_s`: the time from the first failed call of this process to the last, with no success between them.
    """

    def __init__(self, failing_since: datetime | None = None, error: str = "") -> None:
        self.successes = 0
        self.wakes = 0
        self.failing_since = failing_since
        self.error = error
        self.asked_in_vain_s = 0.0
        self._first_failure: float | None = None
        self._not_before = 0.0
        self._success = asyncio.Event()

    def succeeded(self) -> None:
        """Note an accepted call; lanes that pause go on."""
        self.successes += 1
        self._well()
        self._not_before = 0.0
        self._success.set()

    def failed(self, failure: Failed, wakes: int) -> None:
        """Note a call that failed; `wakes`: as they were when it began. After a wake its `Retry-After` is outdated."""
        self._success.clear()
        if self.failing_since is None:
            self.failing_since = datetime.now(UTC)
        self.error = failure.reason
        now = time.monotonic()
        if self._first_failure is None:
            self._first_failure = now
        self.asked_in_vain_s = now - self._first_failure
        if failure.retry_after_s and wakes == self.wakes:
            self._not_before = time.monotonic() + min(failure.retry_after_s, MAX_RETRY_AFTER_S)

    def set_apart(self) -> None:
        """Note that what failed lately is one event's fault: the receiver accepts others."""
        self._well()

    def _well(self) -> None:
        self.failing_since = self._first_failure = None
        self.error = ""
        self.asked_in_vain_s = 0.0

    def wake(self) -> None:
        """End the pauses of all lanes: an operator says that the receiver is back, whatever `Retry-After` it gave."""
        self.wakes += 1
        self._not_before = 0.0
        self._success.set()

    async def pause(self, tries: int, wakes: int) -> None:
        """Wait before the next call of a lane, longer after each of its failures; a success or `wake` ends it.

        `wakes`: as they were when the call that failed began. If there was one since, the receiver is asked at once.
        """
        if wakes != self.wakes:
            return
        most = min(MAX_PAUSE_S, FIRST_PAUSE_S * 2 ** min(tries, 20))
        pause_s = most * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, no secret
        await asyncio.sleep(min(FIRST_PAUSE_S, pause_s))
        left_s = max(pause_s - FIRST_PAUSE_S, self._not_before - time.monotonic())
        if left_s > 0:
            try:
                async with asyncio.timeout(left_s):
                    await self._success.wait()
            except TimeoutError:
                return
