"""Calls to the SETs: which server has an envelope, the call on its link, and what happens to a call that is refused.

What lives here: `calls` (the call, its one retry, and waiting while a database moves), `lists` (many envelopes as rows
of a list, from all SETs at once), `routing` (topology file and ring), `servers` (a link to every setnode server, and
which are fit to be called), `gauges` (what operators see of it), `target` (an envelope, with the link to its server).
May import: `wire`, `sharding.topology`, `runtime`, `errors`, `gateway.limits`.

Authority: none. The topology file says which SET holds an envelope, and each server checks it again: a link sends the
epochs of its topology before any call, and a server that uses another topology refuses. Where both use an outdated one,
the fences in the old SET's tables refuse the write (docs/decisions/0012-moving-a-database.md). Within a
SET any server gives the right answer, because Postgres refuses the second writer; the ring only prefers the server that
has the envelope's actor in memory.

Why a call may be sent twice: it was not begun (our own link did not send it, or the server is `stopping`), or it was
refused because of another topology, and every call is idempotent. A server that reports another part as away (its
wallet, its database) is itself well: it is not excluded. A call whose outcome is unknown for another reason is never
repeated here: its client receives 504 and repeats it. A SET without a server, and for creates the wallet, is waited
for as long as it has been away for less than AWAY_S: parts restart in that time. Limits: MAX_IN_FLIGHT calls on a link,
DEADLINE_S for each, HELD calls that wait for a move or a restart, HOLD_S each (tests/integration/gateway/test_links.py,
test_moves.py). How it fails: Unavailable, with `outcome_known` saying whether the call may have taken effect; a
topology file that cannot be used is logged, and the last good one stays in force.
"""
