"""Moving: a database goes to another SET, by time or live (floor 7).

By time (`by_time`): from a business date on its envelopes are created on the new SET; old days follow once they are
over. Live (`live`): all hot days at once by logical replication (`replication`), and a cutover (`cutover`) of less than
two seconds in which its requests wait at the gateways. `moves` is what commands call. A move never forwards requests.
A move by time is taken back (`take_back`) while the new SET has no envelope of its dates, which is looked at behind a
fence there (tests/integration/moving/test_take_back.py).

Authority. The topology file says which SET has which database from which date, with an epoch per database that rises
with every change of owner. A server or gateway that goes by an older epoch refuses or reads the file again. One write
of that file is the switch; everything before it can be undone.

State. The journal, a row of the table `move` in the SET that gives the database away, says which step is done
(`journal`); the catalog says which leaves stand, are attached or fenced (`leaves`). A step that was begun and not noted
is done again; each is safe to repeat. After a kill the same command continues the move; each crash point is tried in
tests/integration/moving.

What is trusted. No process: one may be stopped for any time, so the fences are in Postgres. In a move by time the old
SET has no tables from the date on; for all other days a row trigger on its leaves refuses writes (HB002), made in one
transaction under locks that wait for running writers. Not the copy: behind the fence the rows of both sides are
counted, summed and hashed (`compare`). The old copy is dropped only after that, and any copy only while the topology
gives its days to the other SET (`must_hold`). Not the register that an earlier try has read: rotation may have been at
work since. Trusted are Postgres' catalog, and that all processes read the same topology file.

Why it is safe. Two processes cannot move one database at once: a tool holds the move lock at both SETs (`lock`). What
drops or deletes is done by a session that holds it, and a change of the topology follows a proof that both sessions
still do; so a tool that slept while its sessions ended can do neither. Whoever goes on with a move writes the journal's
row and a version of the topology first, and refuses with them what its predecessor has begun
(`Journal.take_over`; tests/integration/moving/test_sleepers.py). No rotation is at work on either SET while days are
taken over (`days.lock`). Payout intents, on which both SETs may act, lead to the same order numbers: the wallet pays
each once. If the cutover takes too long, or the copies differ, the source serves on (`cutover.release_traffic`), which
needs the source and the topology alone.

How it fails. Refused, with nothing changed (`date_past`, `already_there`, `other_move`, `days_not_final` …);
Unavailable: the same command continues later (`rotation_busy`, `servers_lag`, `tables_locked`, `stall_too_long` …);
InvariantBroken `copies_are_equal`: a move by time drops the copies, a live move is undone. A process that is killed in
the cutover leaves its database held (requests get `busy`) until the move is run again or aborted: no timeout may end
that, because no other process knows whether the fence stands.

The last act before the switch puts all that was compared on the target's disk (`cutover.make_durable`): the replication
commits without waiting for it. The switch is written only while the database is held, so a process that was stopped in
its cutover and finds that another has released it does not switch (`hold_lost`). The copies are compared again just
before the old ones are dropped; in a live move those rows that were old at the switch, since the target has gone on.

May import: `days`, `installation`, `wire`, `schema`, `sharding`, `runtime`, `envelope`, and of `gateway` how long it
holds a request. Reasons: docs/decisions/0012-moving-a-database.md. Operators: docs/operations/moving.md.
"""
