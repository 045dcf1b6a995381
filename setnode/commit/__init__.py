"""Group commit: writes what users wait for, under admission, many envelopes in one transaction.

`committer` runs the workers; `claim_queue` and `create_queue` say what is ready and what follows a commit; `store` has
the writes themselves; `admission` (with `lease_term` and `lease_store`) limits the transactions inside the SET's
Postgres; `fences` reads the refusals of days that are closed and databases that have moved; `invalidation` notifies the
SET's other servers of what was written to their envelopes; `postgres_life` notices that another Postgres answers.

May import: `setnode.actors`, `setnode.limits`, `envelope`, `sharding`, `runtime`.

Authority. Postgres alone: a claim exists if its row is committed. unique (envelope, seq) and unique (envelope, user)
decide between two writers, the fences decide whether a day and a database may be written. memcached is advice and never
authority: without it a local cap holds, and no amount changes.

State. A batch is in a queue, then in one transaction, then durable, conflicting or of unknown outcome. A transaction is
never cancelled: a cancel request would end a commit's wait for its standby and leave it on one disk alone. A connection
whose outcome is unknown is terminated and never reused.

What is trusted. Nothing of the actors' decisions until Postgres has accepted them: the first statement fails as a whole
on any conflict, and the one that follows is all or nothing for each envelope. So a log never gets a gap, not even where
Postgres itself has gone back: what was decided beside another one is not sent (`postgres_life`).

How it fails. Conflict: the actors concerned reload, the other envelopes of the batch are durable. Lost connection or no
reply within COMMIT_DEADLINE_S: all actors of the batch reload and answer only what the log proves (`outcome_unknown`
else); creates get `database_unavailable` with an unknown outcome. No lease in time: `busy`, nothing was written, unless
another worker of this server drains the queue: then what waits is in one of its next batches. Fence: only the envelopes
of that day or database are refused. A row that Postgres does not accept: its envelope freezes, or its create is
refused, and the others of the batch are written (docs/decisions/0030). Each `on_...` method of a queue is called
exactly once for each batch, so every request is answered.

Why it is safe. Replies follow the commit; claims and their payout intent are rows of one statement, so no claim is
committed without its payout (docs/decisions/0001, 0004, 0006, 0007). Kept by tests/integration/setnode/test_commit.py
(killed and hung connections, conflicts), test_admission.py, test_hung_postgres.py and tests/faults.
"""
