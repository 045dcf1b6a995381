"""What an operator sees of the SETs in a gateway's metrics: who is away, and what is out of service on purpose."""

from collections.abc import Collection

from runtime import metrics
from sharding.topology import Topology

_alive = metrics.gauge("hongbao_set_servers_alive", "Servers of a SET that may be called; 0: the SET is away", ("set",))
_paused = metrics.gauge("hongbao_set_paused", "1 while a SET refuses the requests of users", ("set",))
_drained = metrics.gauge("hongbao_server_drained", "1 while a setnode server is off the ring", ("server",))


def publish(topology: Topology, alive: Collection[str]) -> None:
    """Show the SETs and servers of `topology`, and no others; `alive` names the servers that may be called."""
    for one in (_alive, _paused, _drained):
        one.clear()
    for set_ in topology.sets:
        _alive.labels(set_.name).set(sum(name in alive for name in set_.serving))
        _paused.labels(set_.name).set(set_.paused)
        for server in set_.servers:
            _drained.labels(server.name).set(server.drained)
