"""The topology: which SETs there are, which databases each holds when, which server serves an envelope.

`spec` is the shape and the answers, `check` what it must fulfil, `changes` how one follows from another, `file` how it
is read, written and re-read.
"""

from sharding.topology.check import check_topology
from sharding.topology.file import TopologyFile, change, dump, load
from sharding.topology.spec import Move, ServerSpec, SetSpec, Stay, Topology, moves, set_paused

__all__ = [
    "Move",
    "ServerSpec",
    "SetSpec",
    "Stay",
    "Topology",
    "TopologyFile",
    "change",
    "check_topology",
    "dump",
    "load",
    "moves",
    "set_paused",
]
