-- undo_creates: for money in escrow without an envelope, write a header that is closed at once, with the refund's payout
-- intent, in one statement. If a header stands (a create or its retry was first), nothing is written.
-- Index: envelope's unique key. Lock: waits for another transaction that inserts the same ID.
WITH input AS (
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[]) AS i (envelope_id, sender, total_fen, seed)
), written AS (
    INSERT INTO envelope (envelope_id, slot, sender, kind, split, split_version, total_fen, shares, greeting,
        created_at, opens_at, expires_at, seed, create_key, named, password_mac)
    SELECT envelope_id, (envelope_id % 1000)::smallint, sender, 'equal', 'equal', $7, total_fen, 1, '',
        $5::timestamptz, $5, $5::timestamptz + interval '1 second', seed, '', false, NULL
    FROM input
    ON CONFLICT (envelope_id, slot) DO NOTHING
    RETURNING envelope_id, total_fen
), closed AS (
    INSERT INTO claim (envelope_id, slot, seq, shares, kind, user_id, amount_fen, claimed_at)
    SELECT envelope_id, (envelope_id % 1000)::smallint, 0, 1, 'undone', '', total_fen, $5 FROM written
), boxed AS (
    INSERT INTO payout_batch (created_at, server, envelope_ids, seqs)
    SELECT $5, $6, array_agg(envelope_id ORDER BY envelope_id), array_agg(0 ORDER BY envelope_id)
    FROM written HAVING count(*) > 0
)
SELECT envelope_id FROM written
