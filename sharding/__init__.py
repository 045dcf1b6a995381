"""Where an envelope is (floor 2): IDs, slots, the consistent-hash ring, the topology.

What lives here: `ids` and `slots` (how an ID is made and taken apart), `ring` (the only user of uhashring), `topology`
(SETs, servers and moves, and their file), `limits`. May import: `runtime.metrics`, `errors`; of libraries msgspec and
uhashring. It reads and writes the topology file and uses no network and no database.

Promise, held by tests/unit/sharding: the same ID and topology give the same slot, database, SET and server in every
process, whatever PYTHONHASHSEED is; a SET that joins the ring takes its share from the others and moves nothing among
them. How it fails: a malformed ID or topology is `Refused` with a code; a wrong topology never replaces a good one.
"""
