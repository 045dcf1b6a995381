-- Creates in the order they were paid in, for the SETs' sweepers: $1 after (fund_id), $2 limit.
-- Meaning: rows become visible in order of fund_id (`post` in schema/wallet.sql), so none can appear below a cursor.
--   The caller stops at the first row that is too young and never filters by time: clocks may step back.
-- Index: fund_order, account_pkey. Lock: none.
SELECT fund.fund_id, fund.envelope_id, account.name AS user_name, fund.total_fen, fund.created_at
FROM fund JOIN account ON account.account_id = fund.user_account
WHERE fund.fund_id > $1
ORDER BY fund.fund_id
LIMIT $2
