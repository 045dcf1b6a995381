"""What was decided beside one Postgres is not written to another."""

from datetime import UTC, datetime, timedelta

import pytest

from errors import Unavailable
from runtime.clock import SystemClock
from setnode.actors.batch import ClaimBatch
from setnode.commit.claim_queue import ClaimQueue
from setnode.commit.postgres_life import PostgresLife

BEGAN = datetime(2026, 11, 27, tzinfo=UTC)


def test_another_instant_at_which_it_began_is_another_life() -> None:
    """Whichever connection sees it first; the first of all is no news."""
    told: list[int] = []
    life = PostgresLife()
    life.renewed = told.append
    for began in (BEGAN, BEGAN, BEGAN + timedelta(hours=1), BEGAN + timedelta(hours=1)):
        life.saw(began)
    assert (life.number, told) == (1, [1])


async def test_a_batch_of_an_earlier_life_is_not_sent() -> None:
    """The session has found another Postgres between decision and write: nothing was sent, and that is known."""
    life = PostgresLife()
    queue = ClaimQueue(SystemClock(), "s", lambda *_: None, life=life)
    batch = ClaimBatch(0)
    life.saw(BEGAN)
    life.saw(BEGAN + timedelta(hours=1))
    with pytest.raises(Unavailable) as away:
        await queue.write(None, batch)
    assert away.value.outcome_known
