"""What the rotation asks of the archive: write one database's day, and read it back."""

from collections.abc import Mapping
from datetime import date
from typing import Any, Protocol


class Written(Protocol):
    """What an export says of itself: the sums of the rows it holds, and the digest that the register keeps."""

    @property
    def digest(self) -> str:
        """The hex SHA-256 of the manifest."""

    @property
    def envelopes(self) -> int:
        """How many headers."""

    @property
    def claims(self) -> int:
        """How many rows of the claim log."""

    @property
    def paid_in_fen(self) -> int:
        """What was paid in."""

    @property
    def claimed_fen(self) -> int:
        """What was claimed."""

    @property
    def refunded_fen(self) -> int:
        """What went back."""


class Archive(Protocol):
    """Both take the owner's connection, outside a transaction, and a detached day; both may be repeated."""

    async def export(self, connection: Any, *, xx: int, day: date, proof: Mapping[str, Any] | None) -> Written:
        """Write the archive of database `xx` and date `day`; durable when it returns. Raises Refused, Unavailable."""

    async def verify(self, connection: Any, *, xx: int, day: date) -> Written:
        """Read it back and compare it with the tables, both ways. Raises Refused `archive_…` where it does not hold."""
