-- Which of these order numbers are booked, and as what: $1 order numbers.
-- Index: transfer_order, account_pkey. Lock: none (the ledger is held).
SELECT transfer.order_no, transfer.kind, account.name AS user_name, transfer.amount_fen, transfer.envelope_id
FROM transfer JOIN account ON account.account_id = transfer.user_account
WHERE transfer.order_no = ANY ($1::varchar[])
