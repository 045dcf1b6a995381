-- Write a batch, its postings, balances and creates, holding the ledger: the function and its locks are explained in
--   schema/wallet.sql. Outside a transaction it is one of its own: one round trip, commit included.
-- $1 order_no, $2 kind, $3 debit, $4 credit, $5 user, $6 amount, $7 envelope, each an array literal (runtime.literals);
--   $8 accounts named; of creates: $9 create_key, $10 fingerprint, $11 user account, $12 total, $13 envelope.
SELECT post($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
