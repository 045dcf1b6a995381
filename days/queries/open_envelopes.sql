-- open_envelopes: the hot envelopes of one business day ($1, $2: its IDs) in the slots $3 that are not over. One is over
-- when its claim log has ended (a closing row, or as many rows as shares) and adds up to its total, to the fen.
-- $4 how many. Index: none, it reads the day. Lock: none.
SELECT e.envelope_id, e.expires_at, (e.total_fen - coalesce(c.fen, 0))::bigint AS left_fen
FROM envelope e LEFT JOIN (
    SELECT envelope_id, sum(amount_fen) AS fen, count(*) AS entries, bool_or(kind <> 'open') AS closed
    FROM claim WHERE envelope_id >= $1 AND envelope_id < $2 AND slot = ANY($3::smallint[]) GROUP BY 1
) c USING (envelope_id)
WHERE e.envelope_id >= $1 AND e.envelope_id < $2 AND e.slot = ANY($3::smallint[])
    AND (c.fen IS DISTINCT FROM e.total_fen OR NOT (c.closed OR c.entries >= e.shares))
ORDER BY e.envelope_id LIMIT $4
