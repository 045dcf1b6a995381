-- Account numbers by name, creating the accounts that are missing: $1 names (distinct), $2 kinds.
-- Meaning: an account is created by the first batch that names it, in its transaction. A writer without the ledger's
--   lock could create the same account: UNIQUE fails the batch, which is then tried again.
-- Index: account_name. Lock: the new rows.
WITH wanted AS MATERIALIZED (
    SELECT wanted.name, wanted.kind, account.account_id
    FROM unnest($1::varchar[], $2::smallint[]) AS wanted (name, kind)
    LEFT JOIN account ON account.name = wanted.name
), made AS (
    INSERT INTO account (name, kind)
    SELECT name, kind FROM wanted WHERE account_id IS NULL
    RETURNING name, account_id
)
SELECT name, account_id FROM made
UNION ALL
SELECT name, account_id FROM wanted WHERE account_id IS NOT NULL
