"""When a call is repeated: as the gateway asks, with jitter, and as a small part of all calls.

Clients that each retry a few times multiply the load just when a system can do least. A budget over all requests of a
client keeps retries at a tenth of them (Google's SRE book, "Handling Overload"); who has none left gives up.
"""

import random
from dataclasses import dataclass
from typing import Final

from .errors import ApiError, OutcomeUnknown, TryLater

PART: Final = 0.1
RESERVE: Final = 10.0
"""Retries that may be made at once, before there are requests for them."""


class RetryBudget:
    """Count each request with `sent`; ask `may_retry` before each retry, which is not counted as a request."""

    def __init__(self, part: float = PART, reserve: float = RESERVE) -> None:
        self._part = part
        self._reserve = self._left = reserve

    def sent(self) -> None:
        """Count a request that is no retry."""
        self._left = min(self._reserve, self._left + self._part)

    def may_retry(self) -> bool:
        """Take one retry out of the budget; return whether there was one."""
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


@dataclass(frozen=True)
class Patience:
    """How often and how long a call is tried.

    `attempts` in all, each `attempt_s` long at most, and no new one is begun after `total_s`. Between two of them at
    least what the gateway asks, else `first_s` and twice as much each time, up to `longest_s`; up to half more at
    random, so that a crowd that was refused in one second does not come back in another.
    """

    attempts: int = 5
    attempt_s: float = 10.0
    total_s: float = 30.0
    first_s: float = 0.2
    longest_s: float = 5.0

    def wait_s(self, error: ApiError, attempt: int, spent_s: float) -> float | None:
        """Return how long to wait before the attempt after number `attempt`; None: there is none."""
        if not isinstance(error, TryLater | OutcomeUnknown) or attempt >= self.attempts:
            return None
        pause_s = error.retry_after_s or min(self.longest_s, self.first_s * 2 ** (attempt - 1))
        pause_s *= random.uniform(1.0, 1.5)  # noqa: S311 - jitter, no secret
        return pause_s if spent_s + pause_s <= self.total_s else None


NO_PATIENCE: Final = Patience(attempts=1)
"""Each call once."""
