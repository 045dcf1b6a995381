-- pending_payouts: claims that a payout intent names, or that are stuck. Index: none, both tables are small. Lock:
-- none.
SELECT i.envelope_id, i.seq, false AS stuck
FROM payout_batch p CROSS JOIN LATERAL unnest(p.envelope_ids, p.seqs) AS i (envelope_id, seq)
UNION ALL
SELECT envelope_id, seq, true FROM payout_stuck
