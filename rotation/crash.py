"""Crash points: named places between two steps where a test may end the process, to see the next run finish.

A point that no run reaches is found by the test that goes through all of them.
"""

from collections.abc import Callable
from enum import StrEnum


class Point(StrEnum):
    """Every place where a kill leaves something else behind than at the others, in order."""

    LOCKED = "locked"
    PROVEN = "proven"
    FENCED_ONE = "fenced_one"
    FENCED = "fenced"
    PROVEN_AGAIN = "proven_again"
    CLOSING = "closing"
    CLOSED = "closed"
    DETACH_PENDING = "detach_pending"
    DETACHED_ONE = "detached_one"
    DETACHED_ALL = "detached_all"
    MOVING = "moving"
    MOVED_ONE = "moved_one"
    EXPORT_WRITTEN = "export_written"
    EXPORTED_ONE = "exported_one"
    VERIFY_READ = "verify_read"
    VERIFIED_ONE = "verified_one"
    DROP_CHECKED = "drop_checked"
    DROPPING = "dropping"
    DROPPED_ONE = "dropped_one"


_armed: list[Callable[[Point], None]] = []


def reach(point: Point) -> None:
    """Pass a point; whoever armed it decides what becomes of the process."""
    for hook in _armed:
        hook(point)


def arm(hook: Callable[[Point], None]) -> None:
    """Call `hook` at every point from now on."""
    _armed.append(hook)
