"""Even shares: which SET a first start gives each database, and which moves even out a topology that exists.

A ring gives each SET its share of very many keys. Of ten databases it may give one SET eight, so a SET takes its share
at most, and the next one on the ring takes what is more (consistent hashing with bounded loads, Mirrokni and others
2016).
"""

from collections import Counter
from collections.abc import Mapping

from sharding.ring import Ring
from sharding.slots import database_name
from sharding.topology.spec import Topology


def even_pins(topology: Topology) -> dict[str, str]:
    """Return the pins with which each SET of a new topology has its share, rounded down or up."""
    weights = {one.name: one.weight for one in topology.sets if one.weight}
    ring, room = Ring(weights), _shares(weights, topology.layout.databases)
    # What the rounding leaves over: so many SETs take one more.
    over = topology.layout.databases - sum(room.values())
    pins: dict[str, str] = {}
    for xx in range(topology.layout.databases):
        name = database_name(xx)
        chosen = next(one for one in ring.nodes_for(name) if room[one] > 0 or (over and room[one] == 0))
        over -= room[chosen] == 0
        room[chosen] -= 1
        if chosen != ring.node_for(name):
            pins[name] = chosen
    return pins


def to_balance(topology: Topology) -> dict[int, tuple[str, str]]:
    """Return the fewest moves after which each SET has its share by weight, {xx: (from, to)}.

    A SET of weight 0 counts as 1: it is one that came later. A database that is being moved stays where it goes.
    """
    homes = {xx: topology.set_for_database(xx).name for xx in range(topology.layout.databases)}
    surplus = _surplus(topology, Counter(homes.values()))
    found: dict[int, tuple[str, str]] = {}
    for xx, home in homes.items():
        name = database_name(xx)
        if surplus[home] <= 0 or name in topology.moves or name in topology.held:
            continue
        to = min(surplus, key=lambda one: (surplus[one], one))
        if surplus[to] < 0:
            found[xx] = (home, to)
            surplus[home] -= 1
            surplus[to] += 1
    return found


def _surplus(topology: Topology, held: Mapping[str, int]) -> dict[str, int]:
    """Return how many databases each SET has above its share. What shares leave over goes to those that have most."""
    weights = {one.name: max(one.weight, 1) for one in topology.sets}
    shares = _shares(weights, topology.layout.databases)
    above = sorted(weights, key=lambda name: (shares[name] - held.get(name, 0), name))
    for name in above[: topology.layout.databases - sum(shares.values())]:
        shares[name] += 1
    return {name: held.get(name, 0) - share for name, share in shares.items()}


def _shares(weights: Mapping[str, int], databases: int) -> dict[str, int]:
    total = sum(weights.values())
    return {name: databases * weight // total for name, weight in weights.items()}
