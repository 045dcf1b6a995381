"""The topology: which SETs there are, which databases each holds, which server serves an envelope.

`spec` is the shape and the answers, `check` what it must fulfil, `file` how it is read, written and re-read.
"""

from sharding.topology.check import check_topology
from sharding.topology.file import TopologyFile, dump, load
from sharding.topology.spec import ServerSpec, SetSpec, Topology, moves

__all__ = ["ServerSpec", "SetSpec", "Topology", "TopologyFile", "check_topology", "dump", "load", "moves"]
