-- forget_final: of the envelopes given, drop from `due` those that are final (sold out or closed); returns them.
-- All are of one day and a few slots: $3 these slots, $4 and $5 the day's first and end ID, constants at planning.
-- Index: the unique keys, due's primary key. Lock: the deleted due rows.
WITH final AS (
    SELECT i.envelope_id FROM unnest($1::bigint[]) AS i (envelope_id)
    JOIN envelope e ON e.envelope_id = i.envelope_id AND e.slot = i.envelope_id % 1000
        AND e.slot = ANY($3::smallint[]) AND e.envelope_id >= $4 AND e.envelope_id < $5
    CROSS JOIN LATERAL (
        SELECT count(*) AS entries, bool_or(c.kind <> 'open') AS closed FROM claim c
        WHERE c.envelope_id = i.envelope_id AND c.slot = i.envelope_id % 1000
            AND c.slot = ANY($3::smallint[]) AND c.envelope_id >= $4 AND c.envelope_id < $5
    ) log
    WHERE log.closed OR log.entries = e.shares
)
DELETE FROM due USING final, unnest($1::bigint[], $2::timestamptz[]) AS i (envelope_id, expires_at)
WHERE due.expires_at = i.expires_at AND due.envelope_id = i.envelope_id AND final.envelope_id = i.envelope_id
RETURNING due.envelope_id
