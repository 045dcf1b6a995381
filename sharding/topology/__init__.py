"""The topology: which SETs there are, which databases each holds when, which server serves an envelope.

What lives here: `spec` (its form, and what it answers), `check` (what it must fulfil), `changes` (pure functions from
one topology to the next), `file` (reading, replacing and re-reading the file). May import what `sharding` may.

Authority: the file is the only record of where a database is. It is changed under a lock file, by `file.change` alone
while processes run. Only its owner reads it: all our processes of a machine run under that account. Promise, held by
tests/unit/sharding/test_topology*.py: a reader sees a whole old or a whole new file; a process never takes a topology
that is wrong, older, or that moves a database without raising its epoch. What it cannot promise: that all processes
read a new file at the same time. Therefore links compare epochs, and before a database moves, fences in its tables
refuse writes by processes with an older file (docs/decisions/0012-moving-a-database.md). How it fails: Refused
`topology_invalid`, with the field in the sentence; the process keeps the topology it has.
"""

from sharding.topology.check import check_topology
from sharding.topology.file import TopologyFile, adopt, as_text, change, dump, load, parse, unknown_fields
from sharding.topology.spec import Move, Placement, ServerSpec, SetSpec, Topology, moves, set_paused

__all__ = [
    "Move",
    "Placement",
    "ServerSpec",
    "SetSpec",
    "Topology",
    "TopologyFile",
    "adopt",
    "as_text",
    "change",
    "check_topology",
    "dump",
    "load",
    "moves",
    "parse",
    "set_paused",
    "unknown_fields",
]
