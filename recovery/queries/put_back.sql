-- Writes claims back into the logs of their envelopes, and notes them for those who receive events, who may have been told.
-- Index: claim_seq_key and claim_user_key refuse what is there already.
WITH input AS (
    SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::integer[], $4::integer[], $5::text[], $6::text[], $7::bigint[],
        $8::timestamptz[]) AS row (envelope_id, slot, seq, shares, kind, user_id, amount_fen, claimed_at)
), written AS (
    INSERT INTO claim (envelope_id, slot, seq, shares, kind, user_id, amount_fen, claimed_at)
    SELECT envelope_id, slot, seq, shares, kind, user_id, amount_fen, claimed_at FROM input ORDER BY envelope_id, seq
)
SELECT count(note_claims(claimed_at, envelope_ids, seqs, shares, kinds, user_ids, amounts_fen))
FROM (
    SELECT claimed_at, array_agg(envelope_id ORDER BY envelope_id, seq) AS envelope_ids,
        array_agg(seq ORDER BY envelope_id, seq) AS seqs, array_agg(shares ORDER BY envelope_id, seq) AS shares,
        array_agg(kind ORDER BY envelope_id, seq) AS kinds, array_agg(user_id ORDER BY envelope_id, seq) AS user_ids,
        array_agg(amount_fen ORDER BY envelope_id, seq) AS amounts_fen
    FROM input
    WHERE EXISTS (SELECT FROM event_sink WHERE expires_at IS NULL OR expires_at > now())
    GROUP BY claimed_at ORDER BY claimed_at
) AS told
