-- insert_envelopes: the headers of one batch of creates, each with its due entry and its named guests.
-- Strict: an ID that stands already fails the whole batch, which is then written by insert_contended.
-- $1 to $20 are array literals (runtime.postgres.arrays); instants are milliseconds since the epoch.
-- Index: envelope's unique key. Lock: waits for another transaction that inserts the same ID.
WITH input AS (
    SELECT unnest($1::text::bigint[]) AS envelope_id, unnest($2::text::text[]) AS sender, unnest($3::text::text[]) AS kind,
        unnest($4::text::text[]) AS split, unnest($5::text::smallint[]) AS split_version,
        unnest($6::text::bigint[]) AS total_fen, unnest($7::text::integer[]) AS shares,
        unnest($8::text::text[]) AS greeting,
        timestamptz 'epoch' + unnest($9::text::bigint[]) * interval '1 millisecond' AS created_at,
        timestamptz 'epoch' + unnest($10::text::bigint[]) * interval '1 millisecond' AS opens_at,
        timestamptz 'epoch' + unnest($11::text::bigint[]) * interval '1 millisecond' AS expires_at,
        unnest($12::text::text[]) AS seed, unnest($13::text::text[]) AS create_key,
        unnest($14::text::boolean[]) AS named, unnest($15::text::text[]) AS password_mac,
        unnest($18::text::bigint[]) AS min_fen, unnest($19::text::bigint[]) AS max_fen,
        unnest($20::text::text[]) AS header_seal
), written AS (
    INSERT INTO envelope (envelope_id, slot, sender, kind, split, split_version, total_fen, shares, greeting,
        created_at, opens_at, expires_at, seed, create_key, named, password_mac, min_fen, max_fen, header_seal)
    SELECT envelope_id, (envelope_id % 1000)::smallint, sender, kind, split, split_version, total_fen, shares, greeting,
        created_at, opens_at, expires_at, seed, create_key, named, password_mac, min_fen, max_fen, header_seal
    FROM input
), invited AS (
    INSERT INTO guest (envelope_id, slot, user_id, invited)
    SELECT envelope_id, (envelope_id % 1000)::smallint, user_id, true
    FROM (SELECT unnest($16::text::bigint[]) AS envelope_id, unnest($17::text::text[]) AS user_id) AS guests
), told AS MATERIALIZED (
    SELECT CASE WHEN EXISTS (SELECT FROM event_sink WHERE expires_at IS NULL OR expires_at > now()) THEN (
        SELECT note_created(array_agg(envelope_id), array_agg(sender), array_agg(kind), array_agg(split), array_agg(total_fen),
            array_agg(shares), array_agg(greeting), array_agg(named), array_agg(created_at), array_agg(opens_at),
            array_agg(expires_at))
        FROM input) END AS done
)
INSERT INTO due (expires_at, envelope_id) SELECT expires_at, envelope_id FROM input, told WHERE done IS NOT FALSE
