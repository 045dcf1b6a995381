-- The balances that a careful decision rests on, locked until the end of the batch: $1 account names.
-- Index: account_name. Lock: FOR NO KEY UPDATE on the rows, in order of account_id, against writers that do not
--   take the ledger's lock.
SELECT name, balance_fen FROM account WHERE name = ANY ($1::varchar[]) ORDER BY account_id FOR NO KEY UPDATE
