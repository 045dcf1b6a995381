"""What requests hear of a standby that is gone."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from errors import Unavailable
from setnode.standby import StandbyWatch


class _Session:
    """Answers with a commit's longest wait; None: Postgres is away."""

    def __init__(self) -> None:
        self.waited_s: float | None = 0.0

    async def run(self, work: Callable[[Any], Awaitable[Any]]) -> float:
        assert work
        if self.waited_s is None:
            raise Unavailable("database_unavailable", "away")
        return self.waited_s


async def test_a_database_that_is_away_is_not_called_one_without_a_standby() -> None:
    session = _Session()
    watch = StandbyWatch(session)  # type: ignore[arg-type]
    await watch.look()
    watch.check()
    session.waited_s = 10.0
    await watch.look()
    with pytest.raises(Unavailable) as told:
        watch.check()
    assert told.value.code == "standby_missing"
    session.waited_s = None
    with pytest.raises(Unavailable):
        await watch.look()
    watch.check()
