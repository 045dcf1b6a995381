"""What rotation and moves have in common (beside `installation`): they take business days out of a SET's hot tables.

What lives here: `finality` names what keeps a day from being over (open envelopes, rows of `due`, unpaid or stuck
payouts, escrow accounts that are not zero); `lock` keeps a rotation and a move of one SET apart; `retry` repeats DDL
until it gets its table locks; `crash_points` are the places where a test may kill either tool.

May import: `wire`, `schema`, `sharding`, `runtime`, `errors`. Promise: one definition of "this day is over" for both.
It covers what the register's guard asks for (`prove_closed` and `guard_day_register` in schema/set/0004_days.sql), and
escrow accounts at zero, which the guard cannot see, because they are in the wallet's database. Rotation adds the audit
of the day to it (`rotation.day_proof`), a move adds a comparison of both copies. Nothing here writes to a table.

How it fails: a query raises what the driver raises; `retry` raises Unavailable with the code that its caller gave it.
"""
