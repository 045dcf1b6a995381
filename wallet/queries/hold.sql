-- Begin a batch and hold the ledger until its end.
-- Meaning: one batch writes at a time, however many wallet processes there are. So rows become visible in the
--   order of transfer_id and fund_id, and no two batches can deadlock over account rows. Without the lock the
--   money would still be right (UNIQUE, CHECK, row locks); only the order of fund_id would not.
-- Index: none. Lock: advisory, released by Postgres after the commit is visible; waits up to lock_timeout.
BEGIN;
SELECT pg_advisory_xact_lock(7110001);
