-- append_claims: write the claims of one batch, of any number of envelopes, with their payout intent. Noted for those who
-- receive events, if there are any.
-- Strict: a row that conflicts (a second writer) fails the whole batch, which is then written by append_contended.
-- $1 to $6 are array literals (runtime.postgres.arrays). unnest in the SELECT list goes row by row; in FROM, Postgres would first
-- write each of them into a table of its own.
-- Index: claim's two unique keys. Lock: none but those of the new rows.
WITH input AS (
    SELECT $1::text::bigint[] AS envelope_ids, $2::text::integer[] AS seqs
), written AS (
    INSERT INTO claim (envelope_id, slot, seq, shares, kind, user_id, amount_fen, claimed_at)
    SELECT envelope_id, (envelope_id % 1000)::smallint, seq, shares, kind, user_id, amount_fen, $7
    FROM (
        SELECT unnest(envelope_ids) AS envelope_id, unnest(seqs) AS seq, unnest($3::text::integer[]) AS shares,
            unnest($4::text::text[]) AS kind, unnest($5::text::text[]) AS user_id, unnest($6::text::bigint[]) AS amount_fen
        FROM input
    ) AS row
), told AS MATERIALIZED (
    SELECT CASE WHEN EXISTS (SELECT FROM event_sink WHERE expires_at IS NULL OR expires_at > now())
        THEN note_claims($7, $1::text::bigint[], $2::text::integer[], $3::text::integer[], $4::text::text[],
            $5::text::text[], $6::text::bigint[]) END AS done
)
INSERT INTO payout_batch (created_at, server, envelope_ids, seqs)
SELECT $7, $8, envelope_ids, seqs FROM input, told WHERE done IS NOT FALSE
RETURNING batch_id
