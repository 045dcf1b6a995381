-- Envelopes a user received a share of, newest first: $1 account name, $2 before (transfer_id), $3 limit.
-- Meaning: most rows of most users are receipts, so the others are filtered out; an index of receipts alone would be
--   written with every credit. Who has sent very many and received few reads all of them, READ_TIMEOUT_MS at most.
-- Index: account_name, transfer_statement (backwards). Lock: none.
SELECT transfer.transfer_id, transfer.envelope_id, transfer.amount_fen, transfer.created_at
FROM transfer
WHERE transfer.user_account = (SELECT account_id FROM account WHERE name = $1::varchar)
    AND transfer.kind = 2 AND transfer.transfer_id < $2
ORDER BY transfer.transfer_id DESC
LIMIT $3
