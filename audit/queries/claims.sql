-- claims: the claim logs of one business day and some slots, in order of ID and seq. Index: the unique keys. Lock:
-- none.
SELECT envelope_id, seq, kind, user_id, amount_fen, shares, slot,
    CASE WHEN isfinite(claimed_at) THEN (extract(epoch FROM claimed_at) * 1000)::bigint END AS at_ms
FROM claim WHERE envelope_id >= $1 AND envelope_id < $2 AND slot = ANY($3::smallint[]) ORDER BY envelope_id, seq
