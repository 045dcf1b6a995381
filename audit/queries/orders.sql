-- orders: some credits by order number. Index: transfer_order. Lock: none.
SELECT t.order_no, t.amount_fen, u.name AS receiver, d.name AS debit
FROM transfer t
JOIN account u ON u.account_id = t.user_account
JOIN account d ON d.account_id = t.debit_account
WHERE t.order_no = ANY($1::text[])
