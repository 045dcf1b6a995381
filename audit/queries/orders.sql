-- orders: some credits by order number. Index: transfer_order, account_pkey. Lock: none.
SELECT t.order_no, t.kind, t.amount_fen, t.envelope_id, u.name AS receiver, d.name AS debit, c.name AS credit
FROM transfer t
LEFT JOIN account u ON u.account_id = t.user_account
LEFT JOIN account d ON d.account_id = t.debit_account
LEFT JOIN account c ON c.account_id = t.credit_account
WHERE t.order_no = ANY($1::text[])
