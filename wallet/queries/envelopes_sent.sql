-- Envelopes a user sent, newest first: $1 account name, $2 before (transfer_id), $3 limit.
-- Meaning: a constant kind, because a partial index serves no parameter under a generic plan.
-- Index: account_name, transfer_sent (backwards). Lock: none.
SELECT transfer.transfer_id, transfer.envelope_id, transfer.amount_fen, transfer.created_at
FROM transfer
WHERE transfer.user_account = (SELECT account_id FROM account WHERE name = $1::varchar)
    AND transfer.kind = 1 AND transfer.transfer_id < $2
ORDER BY transfer.transfer_id DESC
LIMIT $3
