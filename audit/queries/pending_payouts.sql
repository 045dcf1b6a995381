-- pending_payouts: claims that a payout intent names, or that are stuck, and for how long. Index: none, both tables are
-- small. Lock: none.
SELECT i.envelope_id, i.seq, false AS stuck, (extract(epoch FROM now() - p.created_at))::float8 AS age_s, NULL AS reason
FROM payout_batch p CROSS JOIN LATERAL unnest(p.envelope_ids, p.seqs) AS i (envelope_id, seq)
UNION ALL
SELECT envelope_id, seq, true, (extract(epoch FROM now() - stuck_at))::float8, reason FROM payout_stuck
