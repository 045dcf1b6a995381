"""The crash points of a rotation, in order: a kill at each of them leaves a state that a kill at no other one leaves.

A test kills the process at each point, and fails if a run never reaches one (tests/faults/test_rotation_killed.py).
"""

from enum import StrEnum


class Point(StrEnum):
    """A name to give to `days.crash_points.reach`."""

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
