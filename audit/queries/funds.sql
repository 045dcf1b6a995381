-- funds: what was paid in for envelopes of one business day and some slots, in order of envelope, with the transfer that
-- paid it (its columns are NULL if there is none). Index: fund_envelope, transfer_order, account_pkey. Lock: none.
SELECT f.envelope_id, f.total_fen, f.left_fen, f.create_key, f.header_hash, u.name AS sender,
    t.kind, t.amount_fen, t.envelope_id AS paid_for, p.name AS debit, d.name AS credit, h.name AS shown_to,
    (extract(epoch FROM now() - f.created_at))::float8 AS age_s
FROM fund f
LEFT JOIN account u ON u.account_id = f.user_account
LEFT JOIN transfer t ON t.order_no = 'F' || f.create_key
LEFT JOIN account p ON p.account_id = t.debit_account
LEFT JOIN account d ON d.account_id = t.credit_account
LEFT JOIN account h ON h.account_id = t.user_account
WHERE f.envelope_id >= $1 AND f.envelope_id < $2 AND f.envelope_id % 1000 = ANY($3::bigint[])
ORDER BY f.envelope_id
