"""The states of a day in one database, in their order."""

from enum import StrEnum


class State(StrEnum):
    """State of a (database, date) in the register; no row means hot. The names are stored."""

    HOT = "hot"
    CLOSED = "closed"
    DETACHED = "detached"
    EXPORTED = "exported"
    VERIFIED = "verified"
    DROPPED = "dropped"

    @property
    def rank(self) -> int:
        """Position in the order: 0 for hot."""
        return list(State).index(self)
