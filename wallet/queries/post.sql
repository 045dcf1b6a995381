-- Write a batch, its postings, balances and creates, under the ledger's lock; `post` is explained in schema/wallet.sql.
--   Called outside a transaction it is a transaction of its own: one round trip, commit included.
-- $1 order_no, $2 kind, $3 debit, $4 credit, $5 user, $6 amount, $7 envelope, $8 number of accounts in $3 and $4;
--   of creates: $9 create_key, $10 fingerprint, $11 user account, $12 total, $13 envelope, $14 header hash, $15 draft (both
--   hex). All but $8 are array literals (runtime.postgres.arrays). Returns NULL, or the constraint that refused the batch.
SELECT post($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
