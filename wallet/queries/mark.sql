-- Give a batch that wrote nothing something to commit.
-- Meaning: a replayed answer must be as durable as the first one. A transaction without WAL returns from COMMIT
--   without waiting for disk or standby; this one waits behind everything that it has read.
-- Index: none. Lock: none.
SELECT pg_logical_emit_message(true, 'hongbao', '')
