-- The first schema of a SET.
-- envelope, claim and guest are partitioned by business date (a range of envelope IDs, which begin with YYMMDD) and
-- under it by slot. The leaves live in schemas db_00 … db_99: db_07.claim_3_21 holds slot 073 of the 21st.
-- Rows of envelope and claim are never updated and never deleted: the setnode's role may only SELECT and INSERT.

-- One row per envelope: what the sender fixed. Bounded varchar everywhere, so that no leaf needs a TOAST table.
CREATE TABLE envelope (
    envelope_id   bigint       NOT NULL,
    total_fen     bigint       NOT NULL CHECK (total_fen >= 1),
    created_at    timestamptz  NOT NULL,
    opens_at      timestamptz  NOT NULL,
    expires_at    timestamptz  NOT NULL,
    shares        integer      NOT NULL CHECK (shares >= 1),
    slot          smallint     NOT NULL CHECK (slot = envelope_id % 1000),
    split_version smallint     NOT NULL,
    kind          varchar(8)   NOT NULL CHECK (kind IN ('lucky', 'equal')),
    split         varchar(24)  NOT NULL,
    named         boolean      NOT NULL,  -- only the users invited in guest may open
    sender        varchar(40)  NOT NULL CHECK (sender <> ''),
    seed          varchar(64)  NOT NULL CHECK (length(seed) = 64),  -- 32 bytes in hex; secret until closed
    create_key    varchar(32)  NOT NULL,  -- stands for (sender, idempotency key); the wallet holds it unique
    password_mac  varchar(64),            -- hex HMAC-SHA-256
    greeting      varchar(64)  NOT NULL,
    CHECK (shares <= total_fen),
    CHECK (opens_at < expires_at AND created_at < expires_at),
    PRIMARY KEY (envelope_id, slot)
) PARTITION BY RANGE (envelope_id);

-- The claim log: one row per opened share, and at most one closing row that takes all that is left (user_id '').
-- Oversell, double open and a second writer all end in a violation of one of the two unique keys.
CREATE TABLE claim (
    envelope_id bigint      NOT NULL,
    amount_fen  bigint      NOT NULL CHECK (amount_fen >= 1),
    claimed_at  timestamptz NOT NULL,
    seq         integer     NOT NULL,
    shares      integer     NOT NULL,
    slot        smallint    NOT NULL CHECK (slot = envelope_id % 1000),
    kind        varchar(8)  NOT NULL CHECK (kind IN ('open', 'expired', 'canceled', 'undone')),
    user_id     varchar(40) NOT NULL,
    CHECK (seq >= 0 AND seq < shares),
    CHECK ((kind = 'open') = (user_id <> '')),
    PRIMARY KEY (envelope_id, seq, slot),
    UNIQUE (envelope_id, user_id, slot)
) PARTITION BY RANGE (envelope_id);

-- Users with a special standing towards an envelope: invited by name, or counted wrong passwords.
CREATE TABLE guest (
    envelope_id bigint      NOT NULL,
    slot        smallint    NOT NULL CHECK (slot = envelope_id % 1000),
    wrong_tries smallint    NOT NULL DEFAULT 0 CHECK (wrong_tries >= 0),
    invited     boolean     NOT NULL,
    user_id     varchar(40) NOT NULL CHECK (user_id <> ''),
    PRIMARY KEY (envelope_id, user_id, slot)
) PARTITION BY RANGE (envelope_id);

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

-- Roles: the setnode appends, the audit reads, nobody but the owner creates or drops.
GRANT USAGE ON SCHEMA public TO hongbao_setnode, hongbao_audit;
GRANT SELECT, INSERT ON envelope, claim TO hongbao_setnode;
GRANT SELECT, INSERT, UPDATE (wrong_tries) ON guest TO hongbao_setnode;
GRANT SELECT, INSERT, DELETE ON due, payout_batch, payout_stuck TO hongbao_setnode;
GRANT SELECT, UPDATE (after) ON fund_cursor TO hongbao_setnode;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO hongbao_audit;
