-- unaccounted: funds and credits of days and slots for which no SET has tables, transfers of kind 1 without their fund,
-- credits under an order number that is not their envelope's, and deposits that do not go from `outside` to the user in
-- whose history they stand, or are not above 0. in_escrow: whether a fund's transfer goes from its user into the escrow
-- of its day and slot; without that it is no create in flight, however young. $1: the days and slots that the SETs have,
-- as YYMMDD * 1000 + slot. Scans fund and transfer. Lock: none.
SELECT 'fund' AS what, f.envelope_id, 'F' || f.create_key AS order_no, f.total_fen AS amount_fen,
    (extract(epoch FROM now() - f.created_at))::float8 AS age_s,
    coalesce(t.debit_account = f.user_account AND t.user_account = f.user_account AND t.amount_fen = f.total_fen
        AND d.name = 'escrow:' || lpad((f.envelope_id / 10000000000000)::text, 6, '0') || ':'
            || lpad((f.envelope_id % 1000)::text, 3, '0'), false) AS in_escrow
FROM fund f
LEFT JOIN transfer t ON t.order_no = 'F' || f.create_key
LEFT JOIN account d ON d.account_id = t.credit_account
WHERE (f.envelope_id / 10000000000000 * 1000 + f.envelope_id % 1000) <> ALL ($1::bigint[])
UNION ALL
SELECT 'transfer', t.envelope_id, t.order_no, t.amount_fen, (extract(epoch FROM now() - t.created_at))::float8,
    false
FROM transfer t
WHERE t.kind = 1 AND NOT EXISTS (SELECT FROM fund f WHERE 'F' || f.create_key = t.order_no AND f.envelope_id = t.envelope_id)
UNION ALL
SELECT 'credit', t.envelope_id, t.order_no, t.amount_fen, (extract(epoch FROM now() - t.created_at))::float8,
    false
FROM transfer t
WHERE t.kind IN (2, 3) AND (
    (t.envelope_id / 10000000000000 * 1000 + t.envelope_id % 1000) <> ALL ($1::bigint[])
    OR t.order_no NOT LIKE t.envelope_id || '.%')
UNION ALL
SELECT 'deposit', t.envelope_id, t.order_no, t.amount_fen, (extract(epoch FROM now() - t.created_at))::float8,
    false
FROM transfer t
LEFT JOIN account d ON d.account_id = t.debit_account
LEFT JOIN account c ON c.account_id = t.credit_account
WHERE t.kind = 0 AND (d.kind IS DISTINCT FROM 2 OR c.kind IS DISTINCT FROM 0 OR t.user_account <> t.credit_account
    OR t.envelope_id IS NOT NULL OR t.amount_fen <= 0)
ORDER BY 2, 3
