-- Balances by account name: $1 names. An account that is missing has no money.
-- Index: account_name. Lock: none.
SELECT name, balance_fen FROM account WHERE name = ANY ($1::varchar[])
