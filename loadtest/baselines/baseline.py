"""What a contender can do, and what it may answer."""

import random
from collections.abc import Sequence
from enum import Enum
from typing import Protocol


class Refusal(Enum):
    """An open that won nothing."""

    SOLD_OUT = "sold out"
    ALREADY = "already opened"
    CONFLICT = "conflict"
    """Another caller was first at the same version, and this contender does not try again."""


class Gone(Exception):
    """The contender was killed before it answered: the outcome of the open is unknown."""


class Baseline(Protocol):
    """A way to hand out shares. Envelopes of one `prepare` have equal totals and counts; it forgets earlier ones."""

    async def prepare(self, envelopes: Sequence[int], shares: int, total_fen: int) -> None:
        """Make envelopes, all of them unopened."""

    async def open(self, envelope: int, user: str) -> int | Refusal:
        """Open one share; returns its amount in fen. Raises Gone after `kill`."""

    async def settle(self) -> None:
        """Return when every answered claim is in Postgres that will ever be there."""

    async def left_fen(self) -> int:
        """Return the money not yet claimed, over all envelopes, by this contender's own account."""

    async def kill(self) -> None:
        """Crash in mid-run: memory is dropped, connections are cut."""

    async def close(self) -> None:
        """Close connections and end tasks."""


def draw(left_fen: int, left_count: int) -> int:
    """Draw an amount by the double-mean method: at least 1 fen, on average the mean, at least 1 fen each is left."""
    if left_count == 1:
        return left_fen
    return 1 + int(random.random() * (2 * left_fen // left_count - 1))
