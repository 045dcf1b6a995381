-- A user's history below a cursor, newest first: $1 account name, $2 before (transfer_id), $3 limit.
-- Index: account_name, transfer_statement (backwards). Lock: none.
SELECT
    transfer.transfer_id, transfer.order_no, transfer.kind, transfer.amount_fen, transfer.envelope_id,
    transfer.created_at,
    transfer.debit_account = transfer.user_account AS paid_out,
    transfer.credit_account = transfer.user_account AS paid_in
FROM transfer
WHERE transfer.user_account = (SELECT account_id FROM account WHERE name = $1::varchar)
    AND transfer.transfer_id < $2
ORDER BY transfer.transfer_id DESC
LIMIT $3
