-- intents: what payout intents name of some slots ($1), one row for each intent. Index: none, the table is small. Lock: none.
SELECT p.created_at, array_agg(i.envelope_id ORDER BY i.n) AS envelope_ids, array_agg(i.seq ORDER BY i.n) AS seqs
FROM payout_batch p
CROSS JOIN LATERAL unnest(p.envelope_ids, p.seqs) WITH ORDINALITY AS i (envelope_id, seq, n)
WHERE i.envelope_id % 1000 = ANY($1::bigint[])
GROUP BY p.batch_id, p.created_at ORDER BY p.batch_id
