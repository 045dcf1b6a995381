"""Activation: brings stored envelopes back into memory, or answers for them without an actor.

`loader` reads logs from Postgres for LOADING actors, many in one query; `log_rows` turns rows into claim logs; `cold`
answers for envelopes of cold days, about which nothing can change any more; `cards` shows envelopes as rows of lists,
without waking them, and `waiting` finds those that wait for a user; `list_reader` reads for both, on its own
connection.

May import: `archive`, `switches`, `setnode.actors`, `setnode.views`, `setnode.partition_ranges`, `setnode.limits`,
`schema`, `sharding`, `envelope`, `runtime`.

Authority. Postgres for days with tables, the day register (`archive.register`) for where a day's rows are: hot tables,
the day's own tables, or the archive. What the hot tables do not have is `not_found` only if the register, read
afterwards, does not say that the day is cold.

State. An actor is LOADING until its log, an error or "not found" arrives; requests wait in its mailbox. An envelope of
a cold day has no actor: requests wait in `cold` for one read.

What is trusted. Rows only after `ClaimLog.restore` has checked each entry against the seed, and the sums; a row that
fails freezes its envelope; cards alone are shown from rows as they are. Archive files only after their hashes match the
signed manifest.

How it fails. While Postgres is away actors wait; requests older than STALE_S get `database_unavailable`. A missing,
damaged or forged archive is `archive_unavailable`. IDs come from outside and may be made up, so every round is bounded
by envelopes and by their shares, days take turns, and days without tables cost one look at the catalog for all of them.
Logs are restored in slices, so that a crowd that wakes does not stop the loop. An envelope that cannot be activated
freezes alone. A list that is read for longer than CARDS_S is replied to without what is missing.

Why it is safe. Each read of hot tables is sealed: a record of its own is committed after the read and before any reply.
With synchronous replication a row may be visible before it is replicated; once the later record is, the row is too, and
an answer that repeats it is as durable as the first
(tests/integration/setnode/test_loader.py, test_hung_postgres.py, tests/integration/archive/test_cold_reads.py).
"""
