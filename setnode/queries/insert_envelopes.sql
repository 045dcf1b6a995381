-- insert_envelopes: the headers of one batch of creates, each with its due entry and its named guests.
-- Returns the IDs that went in; an ID that stands already is left as it is (a retried create).
-- Index: envelope's primary key. Lock: waits for a rival that inserts the same ID.
WITH written AS (
    INSERT INTO envelope (envelope_id, slot, sender, kind, split, split_version, total_fen, shares, greeting,
        created_at, opens_at, expires_at, seed, create_key, named, password_mac)
    SELECT envelope_id, (envelope_id % 1000)::smallint, sender, kind, split, split_version, total_fen, shares, greeting,
        created_at, opens_at, expires_at, seed, create_key, named, password_mac
    FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::bigint[], $7::integer[],
        $8::text[], $9::timestamptz[], $10::timestamptz[], $11::timestamptz[], $12::text[], $13::text[],
        $14::boolean[], $15::text[])
        AS input (envelope_id, sender, kind, split, split_version, total_fen, shares, greeting, created_at, opens_at,
            expires_at, seed, create_key, named, password_mac)
    ON CONFLICT (envelope_id, slot) DO NOTHING
    RETURNING envelope_id, expires_at
), scheduled AS (
    INSERT INTO due (expires_at, envelope_id) SELECT expires_at, envelope_id FROM written
), invited AS (
    INSERT INTO guest (envelope_id, slot, user_id, invited)
    SELECT g.envelope_id, (g.envelope_id % 1000)::smallint, g.user_id, true
    FROM unnest($16::bigint[], $17::text[]) AS g (envelope_id, user_id) JOIN written USING (envelope_id)
)
SELECT envelope_id FROM written
