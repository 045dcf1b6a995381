"""The actors: one object per envelope in memory, which decides its requests in order of arrival.

`registry` finds or makes the actor of an envelope and bounds memory; `actor` holds the mailbox and the phases;
`decisions` gives each request its reply and its rows; `batch` collects the rows of one transaction; `request` is one
waiting request; `showing` replies with a detail or a frame; `access` says who may see or cancel; `unknown_outcome` says
what may be replied after a lost commit; `context` is what an actor needs of its surroundings.

May import: `setnode.views`, `setnode.limits`, `envelope`, `runtime` (logs, metrics, clock), `errors`. There is no
connection, no task and no SQL in here, and no `await`: the dispatcher, the committer and the loader call synchronously.

Authority. An actor is a cache of its envelope's rows in Postgres, which alone decides who holds a share (unique
(envelope, seq) and (envelope, user)). Two servers may hold an actor of the same envelope: the second writer's
transaction conflicts, its actor reloads the log and decides again.

State. LOADING (the log is being read), IDLE, READY (requests wait for a transaction), WRITING (a batch is in flight),
FROZEN (an invariant is broken). The diagram stands in `actor`.

What is trusted. The log in memory, for opens: an outdated log is caught by the unique keys. If another server may have
written since it was read (`generation`), it is not trusted for a detail, a grab or a password that came after its query
was sent: it is read again first. If another Postgres has answered since (`postgres_life`), it is not trusted for
anything: a standby that lacked the last commits may have taken over, and a claim after those would leave a gap.

How it fails. A conflict or a lost connection reloads the log, and the waiting requests are decided from what it says. A
request whose claim may have been committed is answered only what the log proves, else `outcome_unknown`. A log that
violates an invariant, and an unexpected exception, freeze the envelope: its requests are refused, nothing is
repaired automatically, and no other envelope of the batch is concerned.

Why it is safe. A reply is sent after the commit of what it says, in order of arrival; at most one transaction of an
envelope is in flight. There is no await between "mailbox empty" and "idle", so no wake-up is lost
(tests/unit/setnode/test_actor.py runs seeded schedules; docs/decisions/0001, 0005, 0007 and 0017 have the reasons).
"""
