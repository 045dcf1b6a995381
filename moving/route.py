"""The route of a move: which database goes from which SET to which."""

from dataclasses import dataclass

from errors import Refused
from schema.names import read_database
from sharding.slots import database_name, slots_of
from sharding.topology import Topology


@dataclass(frozen=True)
class Route:
    """Database `xx` goes from SET `source` to SET `target`."""

    xx: int
    source: str
    target: str

    @property
    def name(self) -> str:
        """The database as the topology writes it: "db_07"."""
        return database_name(self.xx)

    @property
    def slots(self) -> list[int]:
        """Its ten slots."""
        return list(slots_of(self.xx))


def new_route(topology: Topology, xx: int, to: str) -> Route:
    """Return the route of a new move; raises Refused `unknown_set`, `already_there` or `other_move`."""
    names = [one.name for one in topology.sets]
    if to not in names:
        raise Refused("unknown_set", f"there is no SET {to!r}; there are {', '.join(names)}")
    route = Route(xx, topology.set_for_database(xx).name, to)
    if route.source == to:
        raise Refused("already_there", f"{route.name} is on {to} already")
    if route.name in topology.moves or route.name in topology.held:
        raise Refused("other_move", f"{route.name} is being moved already; finish that first")
    return route


def known_database(text: str, topology: Topology) -> int:
    """Return the number of a database that this layout has; raises Refused `unknown_database`."""
    xx = read_database(text)
    if xx >= topology.layout.databases:
        last = database_name(topology.layout.databases - 1)
        raise Refused("unknown_database", f"there is no {database_name(xx)} here; the last is {last}")
    return xx
