"""Inspection: figures for a DBA about a running installation, read without changing it (floor 7).

What lives here: `database`, one SET's Postgres at one instant (catalog budget, connections, transaction age, bloat,
slowest statements, next swap of table names), with SQL from `queries`; `slow`, the statements of any server, counted or
running; `calendar`, which days have tables and how far the others have left; `hot`, the envelopes that are opened most,
asked from the setnode servers, which have them in memory; `where`, in which tables an envelope is; `switch_effect`,
whom a switch would hit.

May import: `archive`, `installation`, `wire`, `schema`, `switches`, `sharding`, `runtime`, `errors`. Promise: nothing
is written, and every call ends within the bounds of `limits`, also while DDL holds a table. How it fails: Unavailable
`database_unavailable` or `server_away`.
"""
