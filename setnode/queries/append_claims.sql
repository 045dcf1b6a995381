-- append_claims: write the claims of one batch, of any number of envelopes, with their payout intent.
-- Strict: a row that conflicts (second writer) fails the whole batch, which is then tried by append_contended.
-- $1 to $6 are array literals (runtime.literals).
-- $9 names envelopes written by a stand-in, for their owner's ears ('' in ordinary life: then nothing is notified).
-- Index: claim's two unique keys. Lock: none but those of the new rows.
WITH input AS (
    SELECT $1::text::bigint[] AS envelope_ids, $2::text::integer[] AS seqs
), written AS (
    INSERT INTO claim (envelope_id, slot, seq, shares, kind, user_id, amount_fen, claimed_at)
    SELECT envelope_id, (envelope_id % 1000)::smallint, seq, shares, kind, user_id, amount_fen, $7
    FROM input, unnest(envelope_ids, seqs, $3::text::integer[], $4::text::text[], $5::text::text[], $6::text::bigint[])
        AS row (envelope_id, seq, shares, kind, user_id, amount_fen)
)
INSERT INTO payout_batch (created_at, server, envelope_ids, seqs) SELECT $7, $8, envelope_ids, seqs FROM input
RETURNING batch_id, CASE WHEN $9 <> '' THEN pg_notify('hongbao_foreign', $9) END AS notified
