"""A live move whose SETs fail it: restarted elsewhere, gone, silent, or with a full disk; the traffic never pays for it."""

import pytest

from envelope.errors import Refused
from moving.journal import open_move
from moving.moves import abort, move_live
from sharding.slots import database_name
from tests.integration.move_and_die import DIED
from tests.integration.move_fixtures import Land, Traffic, land, no_stream, nothing_left

__all__ = ["land"]
pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]
SETS = ("set-1", "set-2")


async def some_traffic(traffic: Traffic, answers: int = 60) -> None:
    """People come, play and are answered as they should be."""
    async with traffic.busy(senders=2, people=4):
        await traffic.more(answers)
    assert traffic.failures == []


@pytest.mark.parametrize(
    ("point", "then"),
    [
        ("synced", "on"),
        ("synced", "back"),
        ("equal", "on"),
        ("equal", "back"),
        ("switched", "on"),
        ("switched", "back"),
    ],
)
async def test_it_outlives_a_restart_of_both_on_other_ports(land: Land, point: str, then: str) -> None:
    """The subscription remembers a port where nobody listens any more: the move can be finished, and undone."""
    xx = land.database()
    name, traffic = database_name(xx), Traffic(land, xx)
    await some_traffic(traffic)
    async with land.reached_by_proxy(*SETS):
        assert (await land.tool("live", name, "set-2", point))[0] == DIED
    async with land.reached_by_proxy(*SETS):
        if then == "on":
            assert (await move_live(land.ground(), name, None)).complete
        elif point == "switched":
            with pytest.raises(Refused) as late:
                await abort(land.ground(), name)
            assert late.value.code == "too_late"
            assert (await move_live(land.ground(), name, None)).complete
        else:
            assert (await abort(land.ground(), name)).step == "aborted"
    assert await open_move(land.ground(), xx) is None
    await some_traffic(traffic)
    await traffic.all_stands()
    report = await land.settled()
    assert report.holds, report.violations
    await nothing_left(land, "set-2" if (point, then) in (("synced", "back"), ("equal", "back")) else "set-1", xx)
    await no_stream(land)
