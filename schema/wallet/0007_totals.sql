-- 0007 Sums of a user's year are read from the index of statements alone (docs/decisions/0044-totals-from-an-index.md).
-- Lock: writes to transfer wait while the index is built anew, about a second for each million transfers.
DROP INDEX transfer_statement;
CREATE INDEX transfer_statement ON transfer (user_account, transfer_id) INCLUDE (created_at, amount_fen, kind);
ALTER TABLE transfer SET (autovacuum_vacuum_insert_scale_factor = 0.02);
