-- closings: the closing entries of some envelopes of one business day. $1 and $2 bound the IDs, $3 slots, $4 IDs.
-- Index: the unique keys. Lock: none.
SELECT envelope_id, seq, kind, amount_fen, (extract(epoch FROM claimed_at) * 1000)::bigint AS at_ms
FROM claim WHERE envelope_id >= $1 AND envelope_id < $2 AND slot = ANY($3::smallint[]) AND kind <> 'open'
    AND envelope_id = ANY($4::bigint[])
