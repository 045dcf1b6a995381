-- unaccounted: funds and credits of days and slots for which no SET has tables, transfers of kind 1 without their fund,
-- credits under an order number that is not their envelope's, and deposits that do not go from `outside` to the user in
-- whose history they stand. $1: the days and slots that the SETs have, as YYMMDD * 1000 + slot. Scans fund and transfer.
-- Lock: none.
SELECT 'fund' AS what, f.envelope_id, 'F' || f.create_key AS order_no, f.total_fen AS amount_fen,
    (extract(epoch FROM now() - f.created_at))::float8 AS age_s
FROM fund f
WHERE (f.envelope_id / 10000000000000 * 1000 + f.envelope_id % 1000) <> ALL ($1::bigint[])
UNION ALL
SELECT 'transfer', t.envelope_id, t.order_no, t.amount_fen, (extract(epoch FROM now() - t.created_at))::float8
FROM transfer t
WHERE t.kind = 1 AND NOT EXISTS (SELECT FROM fund f WHERE 'F' || f.create_key = t.order_no AND f.envelope_id = t.envelope_id)
UNION ALL
SELECT 'credit', t.envelope_id, t.order_no, t.amount_fen, (extract(epoch FROM now() - t.created_at))::float8
FROM transfer t
WHERE t.kind IN (2, 3) AND (
    (t.envelope_id / 10000000000000 * 1000 + t.envelope_id % 1000) <> ALL ($1::bigint[])
    OR t.order_no NOT LIKE t.envelope_id || '.%')
UNION ALL
SELECT 'deposit', t.envelope_id, t.order_no, t.amount_fen, (extract(epoch FROM now() - t.created_at))::float8
FROM transfer t
LEFT JOIN account d ON d.account_id = t.debit_account
LEFT JOIN account c ON c.account_id = t.credit_account
WHERE t.kind = 0 AND (d.kind IS DISTINCT FROM 2 OR c.kind IS DISTINCT FROM 0 OR t.user_account <> t.credit_account
    OR t.envelope_id IS NOT NULL)
ORDER BY 2, 3 LIMIT 1000
