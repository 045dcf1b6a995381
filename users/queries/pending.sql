-- pending: payouts of a user that wait or are stuck: of their shares, and of what is left of their envelopes. $1 the
-- user. Index: the unique keys of claim and envelope; payout_batch and payout_stuck are small. Lock: none.
SELECT p.envelope_id, p.seq, p.stuck_at, p.reason, p.attempts, c.amount_fen
FROM (
    SELECT i.envelope_id, i.seq, NULL::timestamptz AS stuck_at, NULL AS reason, NULL::integer AS attempts
    FROM payout_batch b CROSS JOIN LATERAL unnest(b.envelope_ids, b.seqs) AS i (envelope_id, seq)
    UNION ALL
    SELECT envelope_id, seq, stuck_at, reason, attempts FROM payout_stuck
) p
JOIN claim c ON c.envelope_id = p.envelope_id AND c.slot = p.envelope_id % 1000 AND c.seq = p.seq
LEFT JOIN envelope e ON c.user_id = '' AND e.envelope_id = p.envelope_id AND e.slot = p.envelope_id % 1000
WHERE c.user_id = $1 OR e.sender = $1
ORDER BY p.envelope_id, p.seq
