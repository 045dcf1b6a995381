-- read_payouts: the claims that payout intents name. Index: payout_batch's primary key. Lock: none.
SELECT p.batch_id, i.envelope_id, i.seq
FROM payout_batch p CROSS JOIN LATERAL unnest(p.envelope_ids, p.seqs) AS i (envelope_id, seq)
WHERE p.batch_id = ANY($1::bigint[])
ORDER BY p.batch_id, i.envelope_id, i.seq
