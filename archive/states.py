"""The states of a day in one database, in the order in which they are gone through."""

from enum import StrEnum


class State(StrEnum):
    """What the register says of a (database, date); no row means hot. The names are stored."""

    HOT = "hot"
    CLOSED = "closed"
    DETACHED = "detached"
    EXPORTED = "exported"
    VERIFIED = "verified"
    DROPPED = "dropped"

    @property
    def rank(self) -> int:
        """How far on the way: 0 for hot."""
        return list(State).index(self)
