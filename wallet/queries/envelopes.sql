-- Envelopes a user sent (kind 1, fund) or received (kind 2, claim), newest first:
--   $1 account name, $2 transfer kind, $3 before (transfer_id), $4 limit.
-- Index: account_name, transfer_statement (backwards; rows of other kinds are read and filtered out). Lock: none.
SELECT transfer.transfer_id, transfer.envelope_id, transfer.amount_fen, transfer.created_at
FROM transfer
WHERE transfer.user_account = (SELECT account_id FROM account WHERE name = $1::varchar)
    AND transfer.kind = $2 AND transfer.transfer_id < $3
ORDER BY transfer.transfer_id DESC
LIMIT $4
