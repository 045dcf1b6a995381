-- funds: what was paid in for envelopes of one business day and some slots, in order of envelope.
-- Index: fund_envelope. Lock: none.
SELECT f.envelope_id, f.total_fen, f.create_key, u.name AS sender, t.amount_fen, d.name AS credit,
    (extract(epoch FROM now() - f.created_at))::float8 AS age_s
FROM fund f
JOIN account u ON u.account_id = f.user_account
LEFT JOIN transfer t ON t.order_no = 'F' || f.create_key
LEFT JOIN account d ON d.account_id = t.credit_account
WHERE f.envelope_id >= $1 AND f.envelope_id < $2 AND f.envelope_id % 1000 = ANY($3::bigint[])
ORDER BY f.envelope_id
