-- count_wrong_passwords: write the counts of wrong passwords of one batch, as the actors decided them. A count rises only
-- from the number that the decision started from: if another server has counted meanwhile, it is not written. Returns the
-- envelopes concerned (NULL for none); the caller then rolls back.
-- Index: guest's primary key. Lock: the guests' rows, in order; waits for another transaction that counts the same.
WITH input AS (
    SELECT envelope_id, user_id, min(wrong_tries) - 1 AS before, max(wrong_tries) AS after
    FROM unnest($1::bigint[], $2::text[], $3::smallint[]) AS tried (envelope_id, user_id, wrong_tries)
    GROUP BY envelope_id, user_id
), counted AS (
    INSERT INTO guest AS g (envelope_id, slot, user_id, wrong_tries, invited)
    SELECT envelope_id, (envelope_id % 1000)::smallint, user_id, after, false FROM input ORDER BY envelope_id, user_id
    ON CONFLICT (envelope_id, user_id, slot) DO UPDATE SET wrong_tries = excluded.wrong_tries
        WHERE g.wrong_tries = (
            SELECT i.before FROM input i WHERE i.envelope_id = g.envelope_id AND i.user_id = g.user_id
        )
    RETURNING g.envelope_id, g.user_id
)
SELECT array_agg(DISTINCT i.envelope_id) FILTER (WHERE c.user_id IS NULL) AS refused
FROM input i LEFT JOIN counted c ON c.envelope_id = i.envelope_id AND c.user_id = i.user_id
