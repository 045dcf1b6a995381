-- insert_contended: as insert_envelopes, for a batch in which some IDs exist (retried creates): those are left as they are.
-- Returns the IDs inserted. ON CONFLICT is slower than the strict statement: it looks before it writes, marks what it
-- wrote, and finds its index anew on every leaf.
-- $1 to $20 as in insert_envelopes. Index: envelope's unique key. Lock: waits for another transaction that inserts the same ID.
WITH written AS (
    INSERT INTO envelope (envelope_id, slot, sender, kind, split, split_version, total_fen, shares, greeting,
        created_at, opens_at, expires_at, seed, create_key, named, password_mac, min_fen, max_fen, header_seal)
    SELECT envelope_id, (envelope_id % 1000)::smallint, sender, kind, split, split_version, total_fen, shares, greeting,
        timestamptz 'epoch' + created_ms * interval '1 millisecond', timestamptz 'epoch' + opens_ms * interval '1 millisecond',
        timestamptz 'epoch' + expires_ms * interval '1 millisecond', seed, create_key, named, password_mac, min_fen, max_fen,
        header_seal
    FROM unnest($1::text::bigint[], $2::text::text[], $3::text::text[], $4::text::text[], $5::text::smallint[],
        $6::text::bigint[], $7::text::integer[], $8::text::text[], $9::text::bigint[], $10::text::bigint[],
        $11::text::bigint[], $12::text::text[], $13::text::text[], $14::text::boolean[], $15::text::text[],
        $18::text::bigint[], $19::text::bigint[], $20::text::text[])
        AS input (envelope_id, sender, kind, split, split_version, total_fen, shares, greeting, created_ms, opens_ms,
            expires_ms, seed, create_key, named, password_mac, min_fen, max_fen, header_seal)
    ON CONFLICT (envelope_id, slot) DO NOTHING
    RETURNING envelope_id, sender, kind, split, total_fen, shares, greeting, named, created_at, opens_at, expires_at
), scheduled AS (
    INSERT INTO due (expires_at, envelope_id) SELECT expires_at, envelope_id FROM written
), invited AS (
    INSERT INTO guest (envelope_id, slot, user_id, invited)
    SELECT g.envelope_id, (g.envelope_id % 1000)::smallint, g.user_id, true
    FROM unnest($16::text::bigint[], $17::text::text[]) AS g (envelope_id, user_id) JOIN written USING (envelope_id)
), told AS MATERIALIZED (
    SELECT CASE WHEN EXISTS (SELECT FROM event_sink WHERE expires_at IS NULL OR expires_at > now()) AND EXISTS (SELECT FROM written) THEN (
        SELECT note_created(array_agg(envelope_id), array_agg(sender::text), array_agg(kind::text), array_agg(split::text),
            array_agg(total_fen), array_agg(shares), array_agg(greeting::text), array_agg(named), array_agg(created_at),
            array_agg(opens_at), array_agg(expires_at))
        FROM written) END AS done
)
SELECT envelope_id FROM written, told WHERE done IS NOT FALSE
