-- envelopes: the headers of one business day and some slots, in order of ID. `due`: expiry will close it.
-- Index: the unique keys (merge append). Lock: none.
SELECT envelope_id, sender, kind, split, split_version, total_fen, shares, greeting, seed, create_key, password_mac,
    min_fen, max_fen, header_seal, named, slot,
    CASE WHEN isfinite(created_at) THEN (extract(epoch FROM created_at) * 1000)::bigint END AS created_at_ms,
    CASE WHEN isfinite(opens_at) THEN (extract(epoch FROM opens_at) * 1000)::bigint END AS opens_at_ms,
    CASE WHEN isfinite(expires_at) THEN (extract(epoch FROM expires_at) * 1000)::bigint END AS expires_at_ms,
    EXISTS (SELECT FROM due d WHERE d.expires_at = e.expires_at AND d.envelope_id = e.envelope_id) AS due
FROM envelope e WHERE envelope_id >= $1 AND envelope_id < $2 AND slot = ANY($3::smallint[]) ORDER BY envelope_id
