"""The first topology, and new addresses at a start: nothing is lost of what moves and operators have changed."""

import pytest

from errors import Refused
from sharding.topology import ServerSpec, SetSpec
from sharding.topology.addresses import first, readdressed
from sharding.topology.changes import drained, hold, paused

WALLET = "http://127.0.0.1:2"


def sets(*names: str, port: int = 1_000, servers: int = 1) -> list[SetSpec]:
    return [
        SetSpec(name, tuple(ServerSpec(f"{name}-{one}", f"http://127.0.0.1:{port + one}") for one in range(servers)))
        for name in names
    ]


@pytest.mark.parametrize(("count", "shares"), [(2, [5, 5]), (3, [3, 3, 4])])
def test_a_first_start_spreads_the_databases_evenly(count: int, shares: list[int]) -> None:
    """Two SETs hold five databases each, three hold 4, 3 and 3; a later start with more SETs leaves them there."""
    names = [f"set-{one}" for one in range(count)]
    topology = first(sets(*names), WALLET, 100)
    assert sorted(len(topology.databases_of(one)) for one in names) == shares
    later = readdressed(topology, sets(*names, "set-9"), WALLET)
    assert [later.set_for_database(xx).name for xx in range(10)] == [
        topology.set_for_database(xx).name for xx in range(10)
    ]


def test_what_operators_have_changed_stays() -> None:
    """Holds, pauses, drains; the same addresses again are no change at all."""
    changed = hold(
        paused(drained(first(sets("set-1", servers=2), WALLET, 100), "set-1-0", away=True), "set-1", on=True), 3
    )
    assert readdressed(changed, changed.sets, WALLET) is changed
    moved = readdressed(changed, sets("set-1", servers=2, port=2_000), WALLET)
    assert (moved.version, moved.held, moved.sets[0].paused) == (changed.version + 1, ("db_03",), True)
    assert moved.sets[0].drained == ("set-1-0",)
    assert moved.sets[0].servers[0].url == "http://127.0.0.1:2000"


def test_a_set_that_holds_databases_is_not_left_out() -> None:
    """It says which to start with, or what to move first."""
    with pytest.raises(Refused, match="set-2 holds 5 databases"):
        readdressed(first(sets("set-1", "set-2"), WALLET, 100), sets("set-1"), WALLET)
