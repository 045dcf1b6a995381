"""What a DBA looks at in a SET, and what a backup of one is (floor 6).

What lives here: `look`, the figures of one instant (catalog budget, connections, vacuum age, bloat, slow statements),
read with SQL from `queries`; `backup`, which instants a folder of base copies and log can give back, and how its log
stands against the server that writes it. Hot envelopes, and the programs that copy, keep the log and restore, are
`cluster`'s: they need addresses and child processes.

May import: `schema`, `sharding`, `envelope`, `runtime`. Promise: nothing here writes, waits for a lock or starts a
process; what a folder lacks is said by the segment's name. Fails by Refused `no_backup` and Unavailable.
"""
