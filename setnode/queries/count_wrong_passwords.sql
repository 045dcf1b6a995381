-- count_wrong_passwords: remember wrong tries; a count never goes down.
-- Index: guest's primary key. Lock: the guest's row.
INSERT INTO guest AS g (envelope_id, slot, user_id, wrong_tries, invited)
SELECT envelope_id, (envelope_id % 1000)::smallint, user_id, max(wrong_tries), false
FROM unnest($1::bigint[], $2::text[], $3::smallint[]) AS input (envelope_id, user_id, wrong_tries)
GROUP BY envelope_id, user_id
ON CONFLICT (envelope_id, user_id, slot) DO UPDATE SET wrong_tries = greatest(g.wrong_tries, excluded.wrong_tries)
