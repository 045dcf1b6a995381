-- receivers: the named receivers of one business day and some slots, in order of ID. Index: guest's primary key. Lock:
-- none.
SELECT envelope_id, user_id FROM guest WHERE envelope_id >= $1 AND envelope_id < $2 AND slot = ANY($3::smallint[])
    AND invited AND slot = envelope_id % 1000 ORDER BY envelope_id
