-- strays: money that moved for an envelope no SET has tables for, or under a number that is not its envelope's.
-- $1: the days and slots that the SETs hold, as YYMMDD * 1000 + slot. Scans fund and transfer. Lock: none.
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
ORDER BY 2, 3 LIMIT 1000
