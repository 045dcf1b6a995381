-- guests: where a user was named, or tried a wrong password, of one business day and some slots. $1 and $2 bound the IDs,
-- $3 slots, $4 the user. Scans the day's guests. Lock: none.
SELECT envelope_id, invited, wrong_tries
FROM guest WHERE envelope_id >= $1 AND envelope_id < $2 AND slot = ANY($3::smallint[]) AND user_id = $4
ORDER BY envelope_id
