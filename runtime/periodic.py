"""The one shape of every periodic service: `run_once() -> Result`, and a loop around it.

Tests call `run_once`; the process runs `Periodic.run` in its task group. A round that fails is logged, counted
and tried again at the next turn: a service never dies of one bad round.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from runtime import logs, metrics

_log = logs.get("periodic")
_rounds = metrics.counter("hongbao_service_rounds_total", "Rounds of periodic services", ("service", "outcome"))


class Periodic:
    """Calls `run_once` every `interval_s` (with `jitter` as a fraction of it) until cancelled.

    `wake()` makes the next round start at once. A round that takes longer than `timeout_s` is given up.
    """

    def __init__(
        self,
        name: str,
        run_once: Callable[[], Awaitable[Any]],
        *,
        interval_s: float,
        timeout_s: float = 60.0,
        jitter: float = 0.1,
    ) -> None:
        self.name = name
        self._run_once = run_once
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._jitter = jitter
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Start the next round now instead of after the interval."""
        self._wake.set()

    async def run(self) -> None:
        """Loop until cancelled."""
        while True:
            self._wake.clear()
            await self._round()
            pause = self._interval_s * (1 + random.uniform(-self._jitter, self._jitter))  # noqa: S311 - no secret
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _round(self) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._run_once()
        except Exception as error:  # noqa: BLE001 - one bad round must not end the service
            _rounds.labels(self.name, "failed").inc()
            _log.warning("service round failed", service=self.name, error=f"{type(error).__name__}: {error}")
        else:
            _rounds.labels(self.name, "done").inc()
