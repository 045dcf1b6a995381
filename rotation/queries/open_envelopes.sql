-- open_envelopes: those of one business day ($1, $2: its IDs) whose log does not add up to their total yet: they are open.
-- $3 how many. Index: none, it reads the day. Lock: none.
SELECT e.envelope_id, e.expires_at, (e.total_fen - coalesce(c.fen, 0))::bigint AS left_fen
FROM envelope e LEFT JOIN (
    SELECT envelope_id, sum(amount_fen) AS fen FROM claim WHERE envelope_id >= $1 AND envelope_id < $2 GROUP BY 1
) c USING (envelope_id)
WHERE e.envelope_id >= $1 AND e.envelope_id < $2 AND c.fen IS DISTINCT FROM e.total_fen
ORDER BY e.envelope_id LIMIT $3
