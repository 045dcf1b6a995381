-- load_envelopes: headers, logs and guests of envelopes of one day and a few slots, in one round trip.
-- $1 IDs, $2 their slots, $3 and $4 the day's first and end ID: constants at planning, so that all but these slots'
-- leaves are pruned; of them `slot = e.slot` leaves one to each envelope's claims and guests.
-- $5: shares after which logs are put off: the envelopes beyond it come as headers alone (`put_off`), the first never.
-- Index: the unique keys. Lock: none.
SELECT e.envelope_id, e.sender, e.kind, e.split, e.split_version, e.total_fen, e.shares, e.greeting, e.seed,
    e.create_key, e.named, e.password_mac, e.min_fen, e.max_fen, e.header_seal,
    CASE WHEN isfinite(e.created_at) THEN (extract(epoch FROM e.created_at) * 1000)::bigint END AS created_at_ms,
    CASE WHEN isfinite(e.opens_at) THEN (extract(epoch FROM e.opens_at) * 1000)::bigint END AS opens_at_ms,
    CASE WHEN isfinite(e.expires_at) THEN (extract(epoch FROM e.expires_at) * 1000)::bigint END AS expires_at_ms,
    c.seqs, c.kinds, c.users, c.amounts, c.times,
    g.guests, g.tries, g.invitations, e.shares_before >= $5 AS put_off
FROM (
    SELECT *, sum(shares) OVER (ORDER BY envelope_id) - shares AS shares_before
    FROM envelope WHERE envelope_id = ANY($1::bigint[]) AND slot = ANY($2::smallint[])
        AND envelope_id >= $3 AND envelope_id < $4
) e
LEFT JOIN LATERAL (
    SELECT array_agg(seq ORDER BY seq) AS seqs, array_agg(kind ORDER BY seq) AS kinds,
        array_agg(user_id ORDER BY seq) AS users, array_agg(amount_fen ORDER BY seq) AS amounts,
        array_agg(CASE WHEN isfinite(claimed_at) THEN (extract(epoch FROM claimed_at) * 1000)::bigint END ORDER BY seq)
            AS times
    FROM claim WHERE claim.envelope_id = e.envelope_id AND claim.slot = e.slot
        AND claim.slot = ANY($2::smallint[])
        AND claim.envelope_id >= $3 AND claim.envelope_id < $4
        AND e.shares_before < $5
) c ON true
LEFT JOIN LATERAL (
    SELECT array_agg(user_id) AS guests, array_agg(wrong_tries) AS tries, array_agg(invited) AS invitations
    FROM guest WHERE guest.envelope_id = e.envelope_id AND guest.slot = e.slot
        AND guest.slot = ANY($2::smallint[])
        AND guest.envelope_id >= $3 AND guest.envelope_id < $4
        AND e.shares_before < $5
        AND (e.named OR e.password_mac IS NOT NULL)
) g ON true
