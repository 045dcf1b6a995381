"""What rotation asks of an archive: write one database's day, and read it back. `archive.adapter` implements it."""

from collections.abc import Mapping
from datetime import date
from typing import Any, Protocol

from runtime.postgres import Connection


class ArchivedDay(Protocol):
    """What the manifest of an archived day says: the sums of its rows, and the digest that the register keeps."""

    @property
    def digest(self) -> str:
        """The hex SHA-256 of the manifest."""

    @property
    def envelopes(self) -> int:
        """How many headers."""

    @property
    def claims(self) -> int:
        """How many rows of the claim log, closing rows included."""

    @property
    def paid_in_fen(self) -> int:
        """The envelopes' totals."""

    @property
    def claimed_fen(self) -> int:
        """What users opened."""

    @property
    def refunded_fen(self) -> int:
        """What the closing rows gave back to senders."""


class ArchivePort(Protocol):
    """Both take the owner's connection, outside a transaction, and a detached day; both are idempotent."""

    async def export(
        self, connection: Connection, *, xx: int, day: date, proof: Mapping[str, Any] | None
    ) -> ArchivedDay:
        """Write the archive of database `xx` and date `day`; durable on return. Raises Refused, Unavailable."""

    async def verify(self, connection: Connection, *, xx: int, day: date) -> ArchivedDay:
        """Read it back and compare it with the tables, both ways. Raises Refused `archive_…` where it does not hold."""
