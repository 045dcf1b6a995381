"""What was decided beside one Postgres is not written to another, and what one has is not taken for the other's."""

from datetime import UTC, datetime, timedelta

import pytest

from errors import Unavailable
from runtime.clock import SystemClock
from setnode.actors.batch import ClaimBatch
from setnode.commit.claim_queue import ClaimQueue
from setnode.commit.postgres_life import PostgresLife

BEGAN = datetime(2026, 11, 27, tzinfo=UTC)
LATER = BEGAN + timedelta(hours=1)


class Connection:
    """A connection to a Postgres that began at an instant."""

    def __init__(self, began: datetime) -> None:
        self.began = began

    async def fetchval(self, _: str) -> datetime:
        return self.began


def test_another_instant_at_which_it_began_is_another_life() -> None:
    """Whichever connection sees it first; the first of all is no news."""
    told: list[int] = []
    life = PostgresLife()
    life.renewed = told.append
    for began in (BEGAN, BEGAN, LATER, LATER):
        life.saw(began)
    assert (life.number, told) == (1, [1])


async def test_a_batch_of_an_earlier_life_is_not_sent() -> None:
    """The session has found another Postgres between decision and write: nothing was sent, and that is known."""
    life, old, new = PostgresLife(), Connection(BEGAN), Connection(LATER)
    queue = ClaimQueue(SystemClock(), "s", lambda *_: None, life=life)
    await life.look(old)
    batch = ClaimBatch(0)
    await life.look(new)
    with pytest.raises(Unavailable) as away:
        await queue.write(new, batch)
    assert away.value.outcome_known


async def test_while_two_answer_only_the_one_seen_last_counts() -> None:
    """Neither is a log taken from the other, nor a claim written to it, whatever life it was decided in."""
    life, old, new = PostgresLife(), Connection(BEGAN), Connection(LATER)
    queue = ClaimQueue(SystemClock(), "s", lambda *_: None, life=life)
    await life.look(old)
    life.check(old)
    await life.look(new)
    life.check(new)
    batch = ClaimBatch(0)
    batch.postgres_life = life.number
    for refused in (lambda: life.check(old), lambda: life.check(Connection(LATER))):
        with pytest.raises(Unavailable):
            refused()
    with pytest.raises(Unavailable):
        await queue.write(old, batch)
    # Its session is dropped, and looks again: then it is the one seen last.
    await life.look(old)
    life.check(old)
    with pytest.raises(Unavailable):
        life.check(new)
