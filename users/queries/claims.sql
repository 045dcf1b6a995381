-- claims: the shares that a user won, of one business day and some slots, in order. $1 and $2 bound the IDs, $3 slots,
-- $4 the user. Scans the keys of the day's claims by envelope and user. Lock: none.
SELECT envelope_id, seq, amount_fen, (extract(epoch FROM claimed_at) * 1000)::bigint AS at_ms
FROM claim WHERE envelope_id >= $1 AND envelope_id < $2 AND slot = ANY($3::smallint[]) AND user_id = $4
ORDER BY envelope_id, seq
