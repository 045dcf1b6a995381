"""How one receiver does, as all lanes of a sink see it."""

import asyncio
import contextlib
import random
import time
from collections.abc import Iterator
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
        self._held = 0
        self._held_since: datetime | None = None
        self._held_by = ""

    @property
    def held(self) -> bool:
        """Whether a lane is held."""
        return self._held > 0

    @property
    def shown(self) -> tuple[str, datetime | None]:
        """What is shown of the sink as its error, and since when it fails: its calls, or else that a lane is held."""
        if self.failing_since is None and self.held:
            return self._held_by, self._held_since
        return self.error, self.failing_since

    @contextlib.contextmanager
    def holding(self, reason: str) -> Iterator[None]:
        """Note, until the block ends, that a lane is held by something that is no fault of its own call."""
        self._held += 1
        self._held_by = reason
        if self._held == 1:
            self._held_since = datetime.now(UTC)
        try:
            yield
        finally:
            self._held -= 1

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
