-- invitations: envelopes of hot days that name a user, newest first.
-- $1 user, $2 the first ID of the oldest day that can still be open, $3 IDs below this one, $4 limit.
-- $2 and $3 are constants at planning, so that only the leaves of those days are planned: one for each database and day.
--   Planning takes about 0.08 ms a leaf: 26 ms for 50 databases and 7 days, and 9 ms to run.
-- Index: guest_user (backwards). Lock: none.
SELECT envelope_id FROM guest
WHERE user_id = $1::varchar AND invited AND envelope_id >= $2::bigint AND envelope_id < $3::bigint
ORDER BY envelope_id DESC
LIMIT $4
