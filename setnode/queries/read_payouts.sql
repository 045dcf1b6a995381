-- read_payouts: the claims that payout intents name, with the receiver of each.
-- Index: the primary keys of payout_batch, claim and envelope. Lock: none.
SELECT p.batch_id, c.envelope_id, c.seq, c.user_id, c.amount_fen,
    CASE WHEN c.user_id = '' THEN e.sender ELSE c.user_id END AS receiver
FROM payout_batch p
CROSS JOIN LATERAL unnest(p.envelope_ids, p.seqs) AS i (envelope_id, seq)
JOIN claim c ON c.envelope_id = i.envelope_id AND c.slot = i.envelope_id % 1000 AND c.seq = i.seq
JOIN envelope e ON e.envelope_id = i.envelope_id AND e.slot = i.envelope_id % 1000
WHERE p.batch_id = ANY($1::bigint[])
ORDER BY p.batch_id, c.envelope_id, c.seq
