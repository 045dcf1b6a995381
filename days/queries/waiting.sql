-- waiting: the work that remains of one business day ($1, $2: its IDs) in the slots $3: envelopes that expiry has not
-- taken off its list, payouts that are unpaid, payouts that are stuck. $4 how many.
-- Index: none; due has a row per envelope alive, the others are small. Lock: none.
SELECT * FROM (
    SELECT 'due' AS what, envelope_id, NULL::integer AS seq, NULL::bigint AS batch_id, '' AS reason FROM due
    UNION ALL
    SELECT 'payout', i.envelope_id, i.seq, p.batch_id, ''
    FROM payout_batch p CROSS JOIN LATERAL unnest(p.envelope_ids, p.seqs) AS i (envelope_id, seq)
    UNION ALL
    SELECT 'stuck', envelope_id, seq, NULL, reason FROM payout_stuck
) w WHERE envelope_id >= $1 AND envelope_id < $2 AND envelope_id % 1000 = ANY($3::bigint[])
ORDER BY envelope_id, seq LIMIT $4
