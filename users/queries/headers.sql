-- headers: those that a user sent, and those of named envelopes whose IDs are given, of one business day and some slots,
-- in order of ID. $1 and $2 bound the IDs, $3 slots, $4 the user, $5 IDs. Scans the day's headers: nothing finds them by
-- sender. Lock: none.
SELECT envelope_id, sender, kind, split, split_version, total_fen, shares, greeting, seed, create_key, password_mac,
    min_fen, max_fen, header_seal, named, slot,
    (extract(epoch FROM created_at) * 1000)::bigint AS created_at_ms,
    (extract(epoch FROM opens_at) * 1000)::bigint AS opens_at_ms,
    (extract(epoch FROM expires_at) * 1000)::bigint AS expires_at_ms
FROM envelope e WHERE envelope_id >= $1 AND envelope_id < $2 AND slot = ANY($3::smallint[])
    AND (sender = $4 OR (named AND envelope_id = ANY($5::bigint[]))) ORDER BY envelope_id
