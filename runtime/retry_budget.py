"""How often a client may try again: retries are a small part of its requests, however many of these fail.

Clients that each retry a few times multiply the load just when a system can do least. A budget over all requests of a
client keeps retries at a tenth of them (Google's SRE book, "Handling Overload"); who has none left gives up.
"""

from typing import Final

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
