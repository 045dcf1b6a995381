-- The rules of envelope, claim and guest move from CHECKs on every leaf to one trigger a table: Postgres compiles a CHECK
-- anew for every leaf that a statement touches. Takes an exclusive lock on all leaves: run it while the SET is drained.
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN
        SELECT conrelid::regclass AS name, conname FROM pg_constraint
        WHERE conrelid IN ('envelope'::regclass, 'claim'::regclass, 'guest'::regclass) AND contype = 'c'
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', found.name, found.conname);
    END LOOP;
END $$;

CREATE FUNCTION envelope_rules() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    broken text;
BEGIN
    SELECT rule INTO broken FROM (SELECT CASE
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
CREATE TRIGGER envelope_insert AFTER INSERT ON envelope REFERENCING NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION envelope_rules();

CREATE FUNCTION claim_rules() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    broken text;
BEGIN
    SELECT rule INTO broken FROM (SELECT CASE
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
CREATE TRIGGER claim_insert AFTER INSERT ON claim REFERENCING NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION claim_rules();

CREATE FUNCTION guest_rules() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    broken text;
BEGIN
    SELECT rule INTO broken FROM (SELECT CASE
        WHEN slot <> envelope_id % 1000 THEN 'guest_slot'
        WHEN wrong_tries < 0 THEN 'guest_tries'
        WHEN user_id = '' THEN 'guest_user'
    END AS rule FROM written) AS checked WHERE rule IS NOT NULL LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'a row of guest breaks the rule %', broken
            USING ERRCODE = 'check_violation', TABLE = 'guest', CONSTRAINT = broken;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER guest_insert AFTER INSERT ON guest REFERENCING NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION guest_rules();
CREATE TRIGGER guest_update AFTER UPDATE ON guest REFERENCING NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION guest_rules();
