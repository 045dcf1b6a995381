-- Begin a batch that must read or make accounts before it writes, and hold the ledger until its end.
-- Meaning: why one batch writes at a time is said at `post` in schema/wallet.sql, which takes the same lock.
-- Index: none. Lock: advisory, released by Postgres after the commit is visible; waits up to lock_timeout.
BEGIN;
SELECT pg_advisory_xact_lock(7110001);
