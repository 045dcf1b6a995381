"""Even shares: of a first start, and by as few moves as can be."""

from collections import Counter

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from sharding.slots import database_name
from sharding.topology import Topology, check_topology
from sharding.topology.balance import even_pins, to_balance
from sharding.topology.changes import hold
from tests.unit.sharding.test_topology import make, make_set

weights = st.lists(st.integers(1, 5), min_size=1, max_size=16)


def of_weights(some: list[int], slots: int) -> Topology:
    sets = tuple(make_set(number, weight=weight) for number, weight in enumerate(some))
    return msgspec.structs.replace(make(1, slots=slots), sets=sets)


def held(topology: Topology) -> Counter[str]:
    return Counter(topology.set_for_database(xx).name for xx in range(topology.layout.databases))


@settings(max_examples=40)
@given(weights, st.sampled_from([10, 40, 100, 1000]))
def test_a_first_start_gives_even_shares(some: list[int], slots: int) -> None:
    """Each SET has its share by weight, rounded down or up; no pin says what the ring says anyway."""
    ring = of_weights(some, slots)
    pins = even_pins(ring)
    topology = msgspec.structs.replace(ring, pins=pins)
    check_topology(topology)
    for one in topology.sets:
        share = topology.layout.databases * one.weight / sum(some)
        assert int(share) <= held(topology)[one.name] <= int(share) + 1
    assert all(ring.base_of(int(name[3:])) != home for name, home in pins.items())


@settings(max_examples=40)
@given(weights, st.sampled_from([40, 100, 1000]))
def test_a_balance_is_even_and_small(some: list[int], slots: int) -> None:
    """After the moves all have even shares, a second plan is empty, and no SET both gives and takes."""
    topology = of_weights(some, slots)
    moves = to_balance(topology)
    assert not {old for old, _ in moves.values()} & {new for _, new in moves.values()}
    assert all(topology.set_for_database(xx).name == old for xx, (old, _) in moves.items())
    pins = {database_name(xx): new for xx, (_, new) in moves.items()}
    topology = msgspec.structs.replace(topology, pins=pins)
    for one in topology.sets:
        share = topology.layout.databases * one.weight / sum(some)
        assert int(share) <= held(topology)[one.name] <= int(share) + 1
    assert to_balance(topology) == {}


def test_a_set_that_came_later_gets_its_share() -> None:
    """A SET of weight 0 counts as one of weight 1; a database on its way is left alone."""
    topology = msgspec.structs.replace(make(1), sets=(make_set(0), make_set(1, weight=0)))
    moves = to_balance(topology)
    assert set(moves.values()) == {("set-0", "set-1")}
    assert len(moves) == topology.layout.databases // 2
    first = min(moves)
    assert first not in to_balance(hold(topology, first))
    assert database_name(first) in hold(topology, first).held
