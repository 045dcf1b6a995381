"""The shape of every periodic service: `run_once()` does one round, `Periodic` calls it again and again.

Tests call `run_once`; a process runs `Periodic.run` in its task group. A round that fails or exceeds its deadline is
logged and counted, and does not end the service.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from runtime import logs, metrics

_log = logs.get("periodic")
_rounds = metrics.counter("hongbao_service_rounds_total", "Rounds of periodic services", ("service", "outcome"))


class Periodic:
    """Calls `run_once`, pausing `interval_s` in between (± the fraction `jitter` of it), until cancelled.

    A round that takes longer than `timeout_s` is cancelled.
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

    async def run(self) -> None:
        """Call `run_once` until cancelled; the first time at once."""
        while True:
            await self._round()
            jitter = random.uniform(-self._jitter, self._jitter)  # noqa: S311 - no secret
            await asyncio.sleep(self._interval_s * (1 + jitter))

    async def _round(self) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._run_once()
        except Exception as error:  # noqa: BLE001 - one bad round must not end the service
            _rounds.labels(self.name, "failed").inc()
            _log.warning("service round failed", service=self.name, error=f"{type(error).__name__}: {error}")
        else:
            _rounds.labels(self.name, "done").inc()
