-- Orders already posted under these numbers: $1 order numbers.
-- Index: transfer_order, account_pkey. Lock: none (within a batch the caller holds the ledger's).
SELECT transfer.order_no, transfer.kind, account.name AS user_name, transfer.amount_fen, transfer.envelope_id
FROM transfer JOIN account ON account.account_id = transfer.user_account
WHERE transfer.order_no = ANY ($1::varchar[])
