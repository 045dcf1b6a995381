"""What an owner doubts of its logs after a look at what stand-ins have written: those, and all only if it must."""

from datetime import UTC, datetime, timedelta

import pytest

from setnode.commit.invalidation import ForeignWrites
from setnode.limits import FOREIGN_KEPT_S, FOREIGN_READ

STARTED = datetime(2026, 11, 21, tzinfo=UTC)


def row(*writes: tuple[int, int], next_xid: int = 10, started_at: datetime = STARTED, at_s: float = 1_000.0) -> dict:
    return {
        "next_xid": next_xid, "started_at": started_at, "at_s": at_s,
        "write_ids": [write_id for write_id, _ in writes], "envelope_ids": [envelope_id for _, envelope_id in writes],
    }  # fmt: skip


@pytest.fixture
def looks():
    """A server that has looked once, and what it doubts from then on."""
    doubted: list[tuple] = []
    one = ForeignWrites(None, lambda *args: doubted.append(args))  # type: ignore[arg-type]
    one.take_in(row())
    assert doubted == [()]
    doubted.clear()
    return one, doubted


def test_what_was_written_is_doubted_once_and_nothing_else(looks):
    """A row stays in view while an older transaction runs; its envelope is read again once."""
    one, doubted = looks
    one.take_in(row((1, 77), (2, 78)))
    one.take_in(row((1, 77), (2, 78), (3, 77)))
    one.take_in(row((3, 77)))
    assert doubted == [(77,), (78,), (77,)]


def test_after_a_silence_shorter_than_rows_are_kept_only_those_rows_count(looks):
    """A stall of a minute costs the logs that were written in it."""
    one, doubted = looks
    one.take_in(row((5, 77), at_s=1_060.0))
    assert doubted == [(77,)]


@pytest.mark.parametrize(
    "later",
    [
        row(at_s=1_000.0 + FOREIGN_KEPT_S / 2),
        row(at_s=999.0),
        row(started_at=STARTED + timedelta(seconds=1)),
        row(*((n, n) for n in range(FOREIGN_READ + 1))),
    ],
    ids=["rows may be gone", "a clock went back", "another Postgres answers", "too many to name"],
)
def test_where_the_rows_cannot_tell_everything_is_doubted(looks, later):
    """Where what was missed cannot be known, no log is trusted."""
    one, doubted = looks
    one.take_in(later)
    assert doubted == [()]
