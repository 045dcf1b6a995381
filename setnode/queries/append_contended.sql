-- append_contended: as append_claims, but all or nothing for each envelope. The first claim of an envelope is inserted
-- unless another server holds its seq; the others follow only if the first was inserted. Returns the envelopes written.
-- $1 to $6 as in append_claims. Index: claim's two unique keys. Lock: waits for another transaction that holds the same seq.
WITH input AS (
    SELECT * FROM unnest(
        $1::text::bigint[], $2::text::integer[], $3::text::integer[], $4::text::text[], $5::text::text[], $6::text::bigint[])
        AS input (envelope_id, seq, shares, kind, user_id, amount_fen)
), first AS (
    -- In the order of append_claims (slot, then envelope): two servers cannot wait for each other.
    SELECT DISTINCT ON (envelope_id % 1000, envelope_id) * FROM input ORDER BY envelope_id % 1000, envelope_id, seq
), head AS (
    INSERT INTO claim (envelope_id, slot, seq, shares, kind, user_id, amount_fen, claimed_at)
    SELECT envelope_id, (envelope_id % 1000)::smallint, seq, shares, kind, user_id, amount_fen, $7 FROM first
    ON CONFLICT DO NOTHING
    RETURNING envelope_id, seq, shares, kind, user_id, amount_fen
), tail AS (
    INSERT INTO claim (envelope_id, slot, seq, shares, kind, user_id, amount_fen, claimed_at)
    SELECT envelope_id, (envelope_id % 1000)::smallint, i.seq, i.shares, i.kind, i.user_id, i.amount_fen, $7
    FROM input i JOIN head USING (envelope_id) WHERE i.seq > head.seq ORDER BY envelope_id % 1000, envelope_id, i.seq
    RETURNING envelope_id, seq, shares, kind, user_id, amount_fen
), written AS (
    SELECT * FROM head UNION ALL SELECT * FROM tail
), boxed AS (
    INSERT INTO payout_batch (created_at, server, envelope_ids, seqs)
    SELECT $7, $8, array_agg(envelope_id ORDER BY envelope_id, seq), array_agg(seq ORDER BY envelope_id, seq)
    FROM written HAVING count(*) > 0
    RETURNING batch_id
), told AS (
    SELECT note_claims($7, array_agg(envelope_id ORDER BY envelope_id, seq), array_agg(seq ORDER BY envelope_id, seq),
        array_agg(shares ORDER BY envelope_id, seq), array_agg(kind::text ORDER BY envelope_id, seq),
        array_agg(user_id::text ORDER BY envelope_id, seq), array_agg(amount_fen ORDER BY envelope_id, seq)) AS done
    FROM written WHERE EXISTS (SELECT FROM event_sink WHERE expires_at IS NULL OR expires_at > now())
    HAVING count(*) > 0
)
SELECT (SELECT batch_id FROM boxed) AS batch_id, (SELECT array_agg(envelope_id) FROM head) AS envelope_ids,
    (SELECT done FROM told) AS told
