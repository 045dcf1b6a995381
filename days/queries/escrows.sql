-- escrows: the escrow accounts of one day and some slots ($1: their names) that are not zero; of the wallet's database.
-- Index: account_name. Lock: none.
SELECT name, balance_fen FROM account WHERE name = ANY($1::text[]) AND balance_fen <> 0 ORDER BY name
