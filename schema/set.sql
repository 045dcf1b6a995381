-- The schema of one SET, to be read. The migrations in set/ lead to the same (tests/integration/test_schema.py).
--
-- envelope, claim and guest are partitioned by business date (a range of envelope IDs, which begin with YYMMDD) and
-- under it by slot. The leaves live in schemas db_00 … db_99: db_07.claim_3_21 holds slot 073 of the 21st.
-- Rows of envelope and claim are never updated and never deleted: the setnode's role may only SELECT and INSERT.
--
-- What must hold within a row of these three stands in a trigger on the whole table that looks at all rows of a statement
-- at once, not in CHECKs: Postgres parses and compiles a CHECK anew for every leaf that a statement touches, which was
-- two thirds of the database's work for an open (docs/decisions/0010).

-- One row per envelope: what the sender fixed. Bounded varchar everywhere, so that no leaf needs a TOAST table.
CREATE TABLE envelope (
    envelope_id   bigint       NOT NULL,
    total_fen     bigint       NOT NULL,
    created_at    timestamptz  NOT NULL,
    opens_at      timestamptz  NOT NULL,
    expires_at    timestamptz  NOT NULL,
    shares        integer      NOT NULL,
    slot          smallint     NOT NULL,
    split_version smallint     NOT NULL,
    kind          varchar(8)   NOT NULL,
    split         varchar(24)  NOT NULL,
    named         boolean      NOT NULL,  -- only the users invited in guest may open
    sender        varchar(40)  NOT NULL,
    seed          varchar(64)  NOT NULL,  -- 32 bytes in hex; secret until closed
    create_key    varchar(32)  NOT NULL,  -- stands for (sender, idempotency key); the wallet holds it unique
    password_mac  varchar(64),            -- hex HMAC-SHA-256
    greeting      varchar(64)  NOT NULL,
    PRIMARY KEY (envelope_id, slot)
) PARTITION BY RANGE (envelope_id);

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

-- The claim log: one row per opened share, and at most one closing row that takes all that is left (user_id '').
-- Oversell, double open and a second writer all end in a violation of one of the two unique keys.
CREATE TABLE claim (
    envelope_id bigint      NOT NULL,
    amount_fen  bigint      NOT NULL,
    claimed_at  timestamptz NOT NULL,
    seq         integer     NOT NULL,
    shares      integer     NOT NULL,
    slot        smallint    NOT NULL,
    kind        varchar(8)  NOT NULL,
    user_id     varchar(40) NOT NULL,
    PRIMARY KEY (envelope_id, seq, slot),
    UNIQUE (envelope_id, user_id, slot)
) PARTITION BY RANGE (envelope_id);

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

-- Users with a special standing towards an envelope: invited by name, or counted wrong passwords.
CREATE TABLE guest (
    envelope_id bigint      NOT NULL,
    slot        smallint    NOT NULL,
    wrong_tries smallint    NOT NULL DEFAULT 0,
    invited     boolean     NOT NULL,
    user_id     varchar(40) NOT NULL,
    PRIMARY KEY (envelope_id, user_id, slot)
) PARTITION BY RANGE (envelope_id);

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

-- Envelopes that must be closed when their time is up. Written with the envelope, deleted once it is final.
CREATE TABLE due (
    expires_at  timestamptz NOT NULL,
    envelope_id bigint      NOT NULL,
    PRIMARY KEY (expires_at, envelope_id)
);

-- The payout intents: one row per commit, naming the claims it wrote. Deleted once all of them are paid or stuck.
CREATE TABLE payout_batch (
    batch_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at   timestamptz NOT NULL,
    server       varchar(64) NOT NULL,
    envelope_ids bigint[]    NOT NULL,
    seqs         integer[]   NOT NULL,
    CHECK (cardinality(envelope_ids) = cardinality(seqs) AND cardinality(seqs) >= 1)
);

-- Payouts that were refused for good or tried too often: an operator looks and re-drives (hongbao payout).
CREATE TABLE payout_stuck (
    envelope_id bigint       NOT NULL,
    seq         integer      NOT NULL,
    attempts    integer      NOT NULL,
    stuck_at    timestamptz  NOT NULL,
    reason      varchar(200) NOT NULL,
    PRIMARY KEY (envelope_id, seq)
);

-- How far the sweeper has compared the wallet's funds with the envelopes here. One row.
CREATE TABLE fund_cursor (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    after    bigint  NOT NULL
);
INSERT INTO fund_cursor (after) VALUES (0);

-- What became of the days: one row per database (xx) and business date that has left the state `hot`; no row is hot.
CREATE TABLE day_register (
    day             date        NOT NULL,
    xx              smallint    NOT NULL CHECK (xx BETWEEN 0 AND 99),
    state           varchar(8)  NOT NULL CHECK (state IN ('closed', 'detached', 'exported', 'verified', 'dropped')),
    since           timestamptz NOT NULL DEFAULT now(),
    envelopes       bigint      NOT NULL,
    claims          bigint      NOT NULL,
    paid_in_fen     bigint      NOT NULL,
    claimed_fen     bigint      NOT NULL,
    refunded_fen    bigint      NOT NULL,
    manifest_sha256 varchar(64),  -- of the archive's manifest, from `exported` on
    PRIMARY KEY (day, xx),
    CHECK (paid_in_fen = claimed_fen + refunded_fen),
    CHECK ((state IN ('closed', 'detached')) = (manifest_sha256 IS NULL))
);

-- What was done to the days, by whom and why. Nobody may change or delete a line.
CREATE TABLE operation_log (
    entry_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz   NOT NULL DEFAULT now(),
    who      varchar(64)   NOT NULL,
    what     varchar(32)   NOT NULL,
    day      date,
    xx       smallint,
    reason   varchar(200)  NOT NULL,
    proof    varchar(4000) NOT NULL DEFAULT '{}'  -- JSON
);

-- How far the move of a database to another SET has come; it stands in the SET that gives it away. One at a time.
CREATE TABLE move (
    move_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xx         smallint      NOT NULL CHECK (xx BETWEEN 0 AND 99),
    kind       varchar(8)    NOT NULL CHECK (kind IN ('by_time', 'live')),
    target     varchar(64)   NOT NULL,
    valid_from date,         -- by_time: the first business date of the new SET
    step       varchar(16)   NOT NULL,
    begun_at   timestamptz   NOT NULL DEFAULT now(),
    since      timestamptz   NOT NULL DEFAULT now(),
    note       varchar(4000) NOT NULL DEFAULT '{}',  -- JSON: what the steps found
    CHECK ((kind = 'by_time') = (valid_from IS NOT NULL))
);
CREATE UNIQUE INDEX move_one ON move (xx) WHERE step NOT IN ('done', 'aborted');

-- Travels with the rows of a live move: what was written before a beat is there when the beat is.
CREATE TABLE move_beat (
    xx   smallint PRIMARY KEY,
    beat bigint NOT NULL
);

-- The fence of a database that leaves: a row trigger on its leaves, made by the move and gone with them. Grants cannot
-- say it, because a leaf's are not asked when a row comes through the parent.
CREATE FUNCTION moved_away() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'db_% is on its way to another SET', TG_ARGV[0] USING ERRCODE = 'HB002', DETAIL = TG_ARGV[0];
END $$;

-- Roles: the setnode appends, the audit reads, nobody but the owner creates or drops.
GRANT USAGE ON SCHEMA public TO hongbao_setnode, hongbao_audit;
GRANT SELECT, INSERT ON envelope, claim TO hongbao_setnode;
GRANT SELECT, INSERT, UPDATE (wrong_tries) ON guest TO hongbao_setnode;
GRANT SELECT, INSERT, DELETE ON due, payout_batch, payout_stuck TO hongbao_setnode;
GRANT SELECT, UPDATE (after) ON fund_cursor TO hongbao_setnode;
GRANT SELECT ON day_register, operation_log TO hongbao_setnode;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO hongbao_audit;
