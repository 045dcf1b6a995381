-- Write a WAL record in a transaction that wrote no row, so that its COMMIT waits for disk and standby.
-- Meaning: a replayed answer must be as durable as the first one. A transaction without WAL returns from COMMIT at
--   once; this one returns after everything that it has read is durable.
-- Index: none. Lock: none.
SELECT pg_logical_emit_message(true, 'hongbao', '')
