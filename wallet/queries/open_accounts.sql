-- Number account names, making those that are missing: $1 names, $2 kinds.
-- Meaning: an account comes into being with the first money it touches, in the same transaction.
-- Index: account_name. Lock: the new rows. (The outer SELECT does not see rows its own statement made, hence UNION.)
WITH wanted AS (
    SELECT * FROM unnest($1::varchar[], $2::smallint[]) AS wanted (name, kind)
), made AS (
    INSERT INTO account (name, kind)
    SELECT wanted.name, wanted.kind FROM wanted
    WHERE NOT EXISTS (SELECT FROM account WHERE account.name = wanted.name)
    ON CONFLICT (name) DO NOTHING
    RETURNING name, account_id
)
SELECT name, account_id FROM made
UNION ALL
SELECT account.name, account.account_id FROM wanted JOIN account ON account.name = wanted.name
