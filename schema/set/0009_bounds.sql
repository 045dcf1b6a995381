-- 0009 Bounds of a share, and a seal over the header. Explained in schema/set.sql.

ALTER TABLE envelope ADD COLUMN min_fen bigint, ADD COLUMN max_fen bigint, ADD COLUMN header_seal varchar(32);

-- Days that are detached are read by the same statements.
DO $$
DECLARE
    cold_table regclass;
BEGIN
    FOR cold_table IN
        SELECT c.oid FROM pg_class c
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'p' AND NOT c.relispartition
            AND c.relname ~ '^envelope_[0-9]{8}$'
        ORDER BY c.relname
    LOOP
        EXECUTE format(
            'ALTER TABLE %s ADD COLUMN min_fen bigint, ADD COLUMN max_fen bigint, ADD COLUMN header_seal varchar(32)',
            cold_table);
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION envelope_rules() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    broken text;
BEGIN
    SELECT rule INTO broken FROM (SELECT CASE
        WHEN num_nulls(envelope_id, total_fen, created_at, opens_at, expires_at, shares, slot, split_version, kind, split,
            named, sender, seed, create_key, greeting) > 0 THEN 'envelope_null'
        WHEN total_fen < 1 THEN 'envelope_total'
        WHEN shares < 1 OR shares > total_fen THEN 'envelope_shares'
        WHEN slot <> envelope_id % 1000 THEN 'envelope_slot'
        WHEN kind NOT IN ('lucky', 'equal') THEN 'envelope_kind'
        WHEN sender = '' THEN 'envelope_sender'
        WHEN length(seed) <> 64 THEN 'envelope_seed'
        WHEN min_fen < 1 OR max_fen < min_fen OR min_fen * shares > total_fen OR max_fen * shares < total_fen
            THEN 'envelope_bounds'
        WHEN opens_at >= expires_at OR created_at >= expires_at THEN 'envelope_times'
    END AS rule FROM written) AS checked WHERE rule IS NOT NULL LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'a row of envelope breaks the rule %', broken
            USING ERRCODE = 'check_violation', TABLE = 'envelope', CONSTRAINT = broken;
    END IF;
    RETURN NULL;
END $$;
