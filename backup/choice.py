"""Which base copy a restore takes, and which copies and log may go: the same in a folder and in a bucket."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from errors import Refused


class BaseCopy(Protocol):
    """What is known of a complete base copy, wherever it is."""

    @property
    def taken_at(self) -> datetime:
        """The instant by which it had ended."""

    @property
    def first_segment(self) -> str:
        """The name of the segment in which its replay begins."""


C = TypeVar("C", bound=BaseCopy)


def copy_for(copies: Sequence[C], until: datetime | None, place: object, server: str) -> C:
    """Return the newest copy that had ended by `until` (None: the newest of all); raises Refused `no_backup`.

    `copies` are in the order of their logs, the oldest first.
    """
    fit = [one for one in copies if until is None or one.taken_at <= until]
    if not fit:
        when = "" if until is None else f" that had ended by {until.isoformat()}"
        raise Refused("no_backup", f"{place} has no backup of {server}{when}; take one first")
    return fit[-1]


def keep_newest(copies: Sequence[C], keep: int) -> tuple[list[C], list[C], str]:
    """Return which copies go and which stay if the newest `keep` stay (at least 1), and the first segment needed then.

    The segment's name is empty where there is no copy: log alone may be all there is, and none of it goes. A name
    begins with its timeline, so log of a timeline that ended before the oldest kept copy's sorts before it.
    """
    kept = list(copies[-max(1, keep) :])
    gone = list(copies[: len(copies) - len(kept)])
    return gone, kept, min((one.first_segment for one in kept), default="")
