-- envelope and claim lose their constraints: the keys become unique indexes, NOT NULL becomes a rule of the triggers.
-- A constraint is a row of pg_constraint for every leaf, and Postgres reads all of pg_constraint for every leaf it makes.
-- Takes an exclusive lock on all leaves and builds their indexes anew: run it while the SET is drained. Detached days keep
-- what they have.
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN
        SELECT conrelid::regclass AS name, conname FROM pg_constraint
        WHERE conrelid IN ('envelope'::regclass, 'claim'::regclass) AND contype IN ('p', 'u')
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', found.name, found.conname);
    END LOOP;
    FOR found IN
        SELECT attrelid::regclass AS name, attname FROM pg_attribute
        WHERE attrelid IN ('envelope'::regclass, 'claim'::regclass) AND attnum > 0 AND attnotnull
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I DROP NOT NULL', found.name, found.attname);
    END LOOP;
END $$;
CREATE UNIQUE INDEX envelope_key ON envelope (envelope_id, slot);
CREATE UNIQUE INDEX claim_seq_key ON claim (envelope_id, seq, slot);
CREATE UNIQUE INDEX claim_user_key ON claim (envelope_id, user_id, slot);

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
        WHEN opens_at >= expires_at OR created_at >= expires_at THEN 'envelope_times'
    END AS rule FROM written) AS checked WHERE rule IS NOT NULL LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'a row of envelope breaks the rule %', broken
            USING ERRCODE = 'check_violation', TABLE = 'envelope', CONSTRAINT = broken;
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION claim_rules() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    broken text;
BEGIN
    SELECT rule INTO broken FROM (SELECT CASE
        WHEN num_nulls(envelope_id, amount_fen, claimed_at, seq, shares, slot, kind, user_id) > 0 THEN 'claim_null'
        WHEN amount_fen < 1 THEN 'claim_amount'
        WHEN seq < 0 OR seq >= shares THEN 'claim_seq'
        WHEN slot <> envelope_id % 1000 THEN 'claim_slot'
        WHEN kind NOT IN ('open', 'expired', 'canceled', 'undone') THEN 'claim_kind'
        WHEN (kind = 'open') <> (user_id <> '') THEN 'claim_user'
    END AS rule FROM written) AS checked WHERE rule IS NOT NULL LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'a row of claim breaks the rule %', broken
            USING ERRCODE = 'check_violation', TABLE = 'claim', CONSTRAINT = broken;
    END IF;
    RETURN NULL;
END $$;
