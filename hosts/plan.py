"""Which hosts a region has, and what belongs on each."""

from collections.abc import Mapping
from dataclasses import dataclass, field

WALLET = "wallet"
EDGE = "edge"
WATCH = "watch"
SETS = ("set-1", "set-2")
SERVERS = ("a", "b")
ETCDS = ("etcd-1", "etcd-2", "etcd-3")
GATEWAYS = ("gateway-1", "gateway-2")


@dataclass(frozen=True)
class Plan:
    """`postgres`: how many Postgres hosts a server has; one alone cannot fail over. `spares`: hosts that stand empty.

    Spares are for a SET that is lost as a whole, by the name of the SET.
    """

    postgres: Mapping[str, int] = field(default_factory=lambda: {"set-1": 3, "set-2": 3, WALLET: 3})
    spares: Mapping[str, int] = field(default_factory=lambda: {"set-2": 3})

    def postgres_hosts(self, server: str) -> list[str]:
        """Return the names of the hosts of one server's Postgres."""
        return [f"{server}-pg-{number}" for number in range(1, self.postgres[server] + 1)]

    def spare_hosts(self, server: str) -> list[str]:
        """Return the names of the empty hosts for one server's Postgres."""
        first = self.postgres[server] + 1
        return [f"{server}-pg-{number}" for number in range(first, first + self.spares.get(server, 0))]

    def setnodes(self, set_name: str) -> list[str]:
        """Return the servers of a SET: each has a host of its own, of the same name."""
        return [f"{set_name}-{one}" for one in SERVERS]

    def memcached_host(self, set_name: str) -> str:
        """Return the host on which the SET's memcached is, beside a setnode."""
        return self.setnodes(set_name)[0]

    def names(self) -> list[str]:
        """Return the names of all hosts."""
        databases = [one for name in self.postgres for one in (*self.postgres_hosts(name), *self.spare_hosts(name))]
        return [
            *ETCDS,
            *databases,
            *(one for name in SETS for one in self.setnodes(name)),
            WALLET,
            *GATEWAYS,
            EDGE,
            WATCH,
        ]


SHORT = Plan(postgres={"set-1": 3, "set-2": 1, WALLET: 1}, spares={})
"""One SET that fails over, and nothing else that does: it is up in half the time."""
