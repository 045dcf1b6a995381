-- append_claims: write the claims of one batch, of any number of envelopes, with their payout intent.
-- Strict: a row that conflicts (a second writer) fails the whole batch, which is then written by append_contended.
-- $1 to $6 are array literals (runtime.pg_arrays). unnest in the SELECT list goes row by row; in FROM, Postgres would first
-- write each of them into a table of its own.
-- Index: claim's two unique keys. Lock: none but those of the new rows.
WITH input AS (
    SELECT $1::text::bigint[] AS envelope_ids, $2::text::integer[] AS seqs, $3::text::integer[] AS shares,
        $4::text::text[] AS kinds, $5::text::text[] AS user_ids, $6::text::bigint[] AS amounts_fen
), written AS (
    INSERT INTO claim (envelope_id, slot, seq, shares, kind, user_id, amount_fen, claimed_at)
    SELECT envelope_id, (envelope_id % 1000)::smallint, seq, shares, kind, user_id, amount_fen, $7
    FROM (
        SELECT unnest(envelope_ids) AS envelope_id, unnest(seqs) AS seq, unnest(shares) AS shares,
            unnest(kinds) AS kind, unnest(user_ids) AS user_id, unnest(amounts_fen) AS amount_fen
        FROM input
    ) AS row
), told AS (
    -- Only while somebody receives events; the rows of the CTE are read no second time otherwise.
    INSERT INTO event_log (what, at, envelope_ids, seqs, shares, kinds, user_ids, amounts_fen)
    SELECT 'claims', $7, envelope_ids, seqs, shares, kinds, user_ids, amounts_fen FROM input
    WHERE EXISTS (SELECT FROM event_sink WHERE expires_at IS NULL OR expires_at > now())
)
INSERT INTO payout_batch (created_at, server, envelope_ids, seqs) SELECT $7, $8, envelope_ids, seqs FROM input
RETURNING batch_id
