-- forget_final: of the envelopes given, drop from `due` those that are final (sold out or closed); returns them.
-- Index: the primary keys. Lock: the deleted due rows.
WITH final AS (
    SELECT i.envelope_id FROM unnest($1::bigint[]) AS i (envelope_id)
    JOIN envelope e ON e.envelope_id = i.envelope_id AND e.slot = i.envelope_id % 1000
    CROSS JOIN LATERAL (
        SELECT count(*) AS entries, bool_or(c.kind <> 'open') AS closed FROM claim c
        WHERE c.envelope_id = i.envelope_id AND c.slot = i.envelope_id % 1000
    ) log
    WHERE log.closed OR log.entries = e.shares
)
DELETE FROM due USING final, unnest($1::bigint[], $2::timestamptz[]) AS i (envelope_id, expires_at)
WHERE due.expires_at = i.expires_at AND due.envelope_id = i.envelope_id AND final.envelope_id = i.envelope_id
RETURNING due.envelope_id
