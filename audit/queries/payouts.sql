-- payouts: credits out of the escrows of one business day and some slots, in order of envelope. $1 and $2 bound the
-- order numbers, which begin with the envelope's ID; $3 the slots. Index: transfer_order, account_pkey. Lock: none.
SELECT t.envelope_id, t.order_no, t.kind, t.amount_fen, d.name AS debit, c.name AS credit, u.name AS receiver
FROM transfer t
LEFT JOIN account d ON d.account_id = t.debit_account
LEFT JOIN account c ON c.account_id = t.credit_account
LEFT JOIN account u ON u.account_id = t.user_account
WHERE t.order_no >= $1 AND t.order_no < $2 AND t.kind IN (2, 3) AND t.envelope_id % 1000 = ANY($3::bigint[])
    AND t.order_no LIKE t.envelope_id || '.%'
ORDER BY t.order_no
