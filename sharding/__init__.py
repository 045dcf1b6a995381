"""Where things are (floor 2): envelope IDs, slots, the consistent-hash ring, the topology.

What lives here: arithmetic on IDs, one keyed hash, the ring (the only user of uhashring), the topology
file. May import: `envelope`, `runtime.metrics`, and for libraries msgspec and uhashring. Nothing here talks to a
network or a database. Promise: the same ID leads to the same slot, database, SET and server in every process, whatever
PYTHONHASHSEED is; a new SET takes its part from the others and moves nothing among them. How it fails: a
malformed ID or topology is `Refused` with a code; a topology that is wrong never replaces a good one.
"""
