-- Begin a transaction that holds the ledger's lock from its start: for a batch that reads or creates accounts first.
-- Meaning: one batch writes at a time; `post` in schema/wallet.sql, which takes the same lock, says why.
-- Index: none. Lock: the ledger's, released by Postgres once the commit is visible; waits up to lock_timeout.
BEGIN;
SELECT hold_ledger();
