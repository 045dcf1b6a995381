-- append_claims: write the claims of one batch, of any number of envelopes, with their payout intent.
-- Strict: a row that conflicts (second writer) fails the whole batch, which is then tried by append_contended.
-- $9 names envelopes written by a stand-in, for their owner's ears ('' in ordinary life: then nothing is notified).
-- Index: claim's two unique keys. Lock: none but those of the new rows.
WITH written AS (
    INSERT INTO claim (envelope_id, slot, seq, shares, kind, user_id, amount_fen, claimed_at)
    SELECT envelope_id, (envelope_id % 1000)::smallint, seq, shares, kind, user_id, amount_fen, $7
    FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::text[], $5::text[], $6::bigint[])
        AS input (envelope_id, seq, shares, kind, user_id, amount_fen)
)
INSERT INTO payout_batch (created_at, server, envelope_ids, seqs) VALUES ($7, $8, $1, $2)
RETURNING batch_id, CASE WHEN $9 <> '' THEN pg_notify('hongbao_foreign', $9) END AS notified
