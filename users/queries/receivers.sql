-- receivers: the users whom some envelopes of one business day name. $1 and $2 bound the IDs, $3 slots, $4 IDs.
-- Index: guest's primary key. Lock: none.
SELECT envelope_id, user_id
FROM guest WHERE envelope_id >= $1 AND envelope_id < $2 AND slot = ANY($3::smallint[]) AND invited
    AND envelope_id = ANY($4::bigint[])
