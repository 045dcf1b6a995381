-- envelopes: the headers of one business day, in order of ID. Index: the primary keys (merge append). Lock: none.
SELECT envelope_id, sender, kind, split, split_version, total_fen, shares, seed, create_key,
    (extract(epoch FROM expires_at) * 1000)::bigint AS expires_at_ms
FROM envelope WHERE envelope_id >= $1 AND envelope_id < $2 ORDER BY envelope_id
