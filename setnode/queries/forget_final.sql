-- forget_final: of the envelopes given, drop from `due` those that are final (sold out or closed); returns them.
-- All are of one day and a few slots: $3 these slots, $4 and $5 the day's first and end ID, constants at planning.
-- By its last claim an envelope may be final; only then its header is read and its claims are counted.
-- Index: the unique keys, due's primary key. Lock: the deleted due rows.
WITH perhaps AS MATERIALIZED (
    SELECT i.envelope_id FROM unnest($1::bigint[]) AS i (envelope_id)
    CROSS JOIN LATERAL (
        SELECT c.kind <> 'open' OR c.seq = c.shares - 1 AS final FROM claim c
        WHERE c.envelope_id = i.envelope_id AND c.slot = i.envelope_id % 1000
            AND c.slot = ANY($3::smallint[]) AND c.envelope_id >= $4 AND c.envelope_id < $5
        ORDER BY c.seq DESC LIMIT 1
    ) last
    WHERE last.final
), final AS MATERIALIZED (
    SELECT e.envelope_id FROM envelope e
    CROSS JOIN LATERAL (
        SELECT count(*) AS entries, bool_or(c.kind <> 'open') AS closed FROM claim c
        WHERE c.envelope_id = e.envelope_id AND c.slot = e.slot
            AND c.slot = ANY($3::smallint[]) AND c.envelope_id >= $4 AND c.envelope_id < $5
    ) log
    WHERE e.envelope_id = ANY(ARRAY(SELECT envelope_id FROM perhaps)) AND e.slot = ANY($3::smallint[])
        AND e.envelope_id >= $4 AND e.envelope_id < $5 AND (log.closed OR log.entries = e.shares)
)
DELETE FROM due USING final, unnest($1::bigint[], $2::timestamptz[]) AS i (envelope_id, expires_at)
WHERE due.expires_at = i.expires_at AND due.envelope_id = i.envelope_id AND final.envelope_id = i.envelope_id
RETURNING due.envelope_id
