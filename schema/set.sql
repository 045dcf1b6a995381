-- The database of one SET, to be read. The migrations in set/ build it; tests/integration/schema/test_schema.py
-- compares them.
--
-- envelope, claim and guest are partitioned by business date (a range of envelope IDs, which begin with YYMMDD) and
-- under it by slot. The leaves live in schemas db_00 … db_99: db_07.claim_3_21 holds slot 073 of the 21st.
-- Rows of envelope and claim are never updated and never deleted: the setnode's role may only SELECT and INSERT. One
-- exception: when a user is forgotten, the owner replaces their name (`forget_name` below); no amount ever changes.
--
-- The rules within a row of these three stand in a trigger on the whole table that checks all rows of a statement at
-- once, not in CHECKs: Postgres parses and compiles a CHECK anew for every leaf that a statement touches
-- (docs/decisions/0010).
--
-- envelope and claim have no constraint at all: their keys are unique indexes, and NOT NULL is among the trigger's
-- rules. A constraint is a row of pg_constraint for every leaf, and Postgres reads the whole of pg_constraint for every
-- leaf it makes (docs/decisions/0014). guest, of few leaves, keeps its own.

-- Headers: one row per envelope, what the sender fixed. Every varchar is bounded, so that no leaf needs a TOAST table.
CREATE TABLE envelope (
    envelope_id   bigint,       -- YYMMDD, ten digits, slot
    total_fen     bigint,       -- what the sender paid in
    created_at    timestamptz,  -- when the create began, by the setnode's clock
    opens_at      timestamptz,  -- nobody can open before
    expires_at    timestamptz,  -- from then on it is closed, and what is left goes back
    shares        integer,      -- into how many the total is cut
    slot          smallint,     -- the last three digits of the ID; its tens are the database
    split_version smallint,     -- of the formulas that give the amounts
    kind          varchar(8),   -- lucky or equal
    split         varchar(24),  -- the formula that gives the amounts
    named         boolean,      -- only the users invited in guest may open
    sender        varchar(40),  -- the user who paid
    seed          varchar(64),  -- 32 bytes in hex; secret until closed
    create_key    varchar(32),  -- stands for (sender, idempotency key); the wallet holds it unique
    password_mac  varchar(64),  -- hex HMAC-SHA-256, or NULL
    greeting      varchar(64),  -- the sender's words, or empty
    min_fen       bigint,       -- bounds of a share, or NULL
    max_fen       bigint,       -- the same
    header_seal   varchar(32)   -- hex MAC over all of this under the setnodes' key, or NULL: undone, or older than seals
) PARTITION BY RANGE (envelope_id);
CREATE UNIQUE INDEX envelope_key ON envelope (envelope_id, slot);

CREATE FUNCTION envelope_rules() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE TRIGGER envelope_insert AFTER INSERT ON envelope REFERENCING NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION envelope_rules();

-- The claim log: one row per opened share, and at most one closing row that takes all that is left (user_id '').
-- Oversell, double open and a second writer violate one of the two unique keys. Of the amount, only that it is at least
-- 1 is checked here; that it follows from the seed is checked by the code that loads a log, and by the audit.
CREATE TABLE claim (
    envelope_id bigint,
    amount_fen  bigint,       -- what the share, or what is left, comes to
    claimed_at  timestamptz,  -- when it was decided, by the setnode's clock
    seq         integer,      -- place in the order of opening, from 0
    shares      integer,      -- of the envelope, for the rules of the row
    slot        smallint,     -- of the envelope
    kind        varchar(8),   -- open, or how it was closed: expired, canceled, undone
    user_id     varchar(40)   -- who opened; '' where it was closed
) PARTITION BY RANGE (envelope_id);
CREATE UNIQUE INDEX claim_seq_key ON claim (envelope_id, seq, slot);
CREATE UNIQUE INDEX claim_user_key ON claim (envelope_id, user_id, slot);

CREATE FUNCTION claim_rules() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE TRIGGER claim_insert AFTER INSERT ON claim REFERENCING NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION claim_rules();

-- Guests: users who are invited to an envelope by name, or whose wrong passwords are counted.
CREATE TABLE guest (
    envelope_id bigint      NOT NULL,
    slot        smallint    NOT NULL,
    wrong_tries smallint    NOT NULL DEFAULT 0,  -- passwords of this user that did not match
    invited     boolean     NOT NULL,            -- named by the sender in `to`
    user_id     varchar(40) NOT NULL,
    PRIMARY KEY (envelope_id, user_id, slot)
) PARTITION BY RANGE (envelope_id);

-- Finds the envelopes that wait for a user. One more index entry for each named user (about 60 bytes, nothing for wrong
-- passwords), and one more index for each leaf, of which guest has one for a database and day.
CREATE INDEX guest_user ON guest (user_id, envelope_id) WHERE invited;

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

-- Envelopes to be closed when they expire. Written with the header, deleted once the envelope is final.
CREATE TABLE due (
    expires_at  timestamptz NOT NULL,
    envelope_id bigint      NOT NULL,
    PRIMARY KEY (expires_at, envelope_id)
);

-- Payout intents: one row per commit of claims, naming them. Deleted once each of them is paid or stuck.
CREATE TABLE payout_batch (
    batch_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at   timestamptz NOT NULL,
    server       varchar(64) NOT NULL,  -- which wrote it, and pays it first
    envelope_ids bigint[]    NOT NULL,  -- of each claim its envelope
    seqs         integer[]   NOT NULL,  -- and its seq, at the same place
    CHECK (cardinality(envelope_ids) = cardinality(seqs) AND cardinality(seqs) >= 1)
);

-- Stuck payouts (dead letters): refused for good or tried too often. An operator redrives them (hongbao payout).
CREATE TABLE payout_stuck (
    envelope_id bigint       NOT NULL,
    seq         integer      NOT NULL,
    attempts    integer      NOT NULL,
    stuck_at    timestamptz  NOT NULL,
    reason      varchar(200) NOT NULL,
    amount_fen  bigint       NOT NULL DEFAULT 0,  -- of the claim; 0 if the row was written without it
    PRIMARY KEY (envelope_id, seq)
);

-- The sweeper's cursor: funds of the wallet up to this ID have been compared with the envelopes here. One row.
CREATE TABLE fund_cursor (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    after    bigint  NOT NULL
);
INSERT INTO fund_cursor (after) VALUES (0);

-- Funds that the sweeper has passed although they have no header here: their ID has no day, Postgres does not accept
-- their header, or the wallet has paid shares of them. Nothing is done about them by itself; an operator looks.
CREATE TABLE fund_set_apart (
    fund_id     bigint       PRIMARY KEY,
    envelope_id bigint       NOT NULL,
    sender      varchar(64)  NOT NULL,
    total_fen   bigint       NOT NULL,
    reason      varchar(200) NOT NULL,
    since       timestamptz  NOT NULL DEFAULT now()
);

-- Envelopes that a server has written for their owner, in the transaction that wrote them. The owner reads the rows of
-- transactions that may have ended since its last look (xid) and then these logs again. Deleted after some minutes.
CREATE TABLE foreign_write (
    write_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    envelope_id bigint      NOT NULL,
    xid         bigint      NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    at          timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX foreign_write_xid ON foreign_write (xid);
-- Whose database it is: the name of its SET, or "wallet". One row; processes compare it with their own name.
CREATE TABLE belongs_to (
    name varchar(64) COLLATE "C" NOT NULL,
    one  boolean NOT NULL DEFAULT true,
    CONSTRAINT belongs_to_one PRIMARY KEY (one),
    CONSTRAINT belongs_to_no_other CHECK (one)
);

-- What all processes go by and operators change: the topology, and the switches. A row for each version. The wallet's
-- table decides which change is the next version (the key); the SETs have copies, which their servers read.
CREATE TABLE published (
    name    varchar(32) COLLATE "C" NOT NULL,  -- topology, switches
    version integer     NOT NULL,
    content text        NOT NULL,              -- JSON, as in the file that processes keep
    who     varchar(64) NOT NULL,
    at      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT published_version PRIMARY KEY (name, version),
    CONSTRAINT published_first CHECK (version > 0),
    CONSTRAINT published_size CHECK (octet_length(content) <= 2000000)
);


-- Facts for those who receive events (docs/decisions/0048): a row for each statement that wrote claims or headers, with
-- what it wrote, in its transaction; refunds and stuck payouts when they are settled. Written while a sink stands in
-- event_sink. The columns of one row are arrays of one length. Deleted once every sink has passed it.
CREATE TABLE event_log (
    entry_id     bigint GENERATED ALWAYS AS IDENTITY,
    xid          xid8        NOT NULL DEFAULT pg_current_xact_id(),
    what         varchar(8)  NOT NULL CHECK (what IN ('created', 'claims', 'refunds', 'stuck')),
    at           timestamptz NOT NULL DEFAULT now(),  -- of the facts, by the setnode's clock
    written_at   timestamptz NOT NULL DEFAULT now(),  -- by this server's clock
    envelope_ids bigint[]    NOT NULL,
    seqs         integer[]   NOT NULL,  -- of the claims; 0 where a header was written
    shares       integer[],             -- of the envelope
    kinds        text[],                -- of the claim, or of the envelope
    user_ids     text[]      NOT NULL,  -- who opened, who gets the refund, the sender
    amounts_fen  bigint[]    NOT NULL,
    notes        text[],                -- of headers the other terms (JSON); of stuck payouts attempts and reason (JSON)
    PRIMARY KEY (xid, entry_id)
);
-- Not compressed: a commit of a great crowd would wait for it.
ALTER TABLE event_log ALTER envelope_ids SET STORAGE EXTERNAL, ALTER seqs SET STORAGE EXTERNAL,
    ALTER shares SET STORAGE EXTERNAL, ALTER kinds SET STORAGE EXTERNAL, ALTER user_ids SET STORAGE EXTERNAL,
    ALTER amounts_fen SET STORAGE EXTERNAL, ALTER notes SET STORAGE EXTERNAL;

-- Note for those who receive events what a statement has written. Functions, so that a commit pays for event_log only while
-- there is a sink: a statement that names a table as its target opens the table and its indexes, whether or not it writes.
-- They are called within `CASE WHEN EXISTS (… event_sink …)`, and return true. Index: event_log's primary key.
CREATE FUNCTION note_claims(
    at timestamptz, envelopes bigint[], seqs integer[], shares integer[], kinds text[], users text[], amounts bigint[]
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO event_log (what, at, envelope_ids, seqs, shares, kinds, user_ids, amounts_fen)
    VALUES ('claims', note_claims.at, envelopes, note_claims.seqs, note_claims.shares, note_claims.kinds, users, amounts);
    RETURN true;
END $$;

CREATE FUNCTION note_created(
    envelopes bigint[], senders text[], kinds text[], splits text[], totals bigint[], shares integer[], greetings text[],
    named boolean[], created timestamptz[], opens timestamptz[], expires timestamptz[]
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO event_log (what, envelope_ids, seqs, shares, kinds, user_ids, amounts_fen, notes)
    SELECT 'created', envelopes, array_fill(0, ARRAY[cardinality(envelopes)]), note_created.shares, note_created.kinds,
        senders, totals, array_agg(
            json_build_object('greeting', greeting, 'split', split, 'named', is_named, 'created_at', created_at,
                'opens_at', opens_at, 'expires_at', expires_at)::text ORDER BY place)
    FROM unnest(greetings, splits, note_created.named, created, opens, expires)
        WITH ORDINALITY AS n (greeting, split, is_named, created_at, opens_at, expires_at, place);
    RETURN true;
END $$;

-- Sinks: who receives events. Every commit of claims looks whether there is one, so rows change by an operator's hand only
-- (and a tail's, every ten seconds): old versions of rows would have to be passed by each commit.
CREATE TABLE event_sink (
    name              varchar(40)    PRIMARY KEY,
    kind              varchar(8)     NOT NULL CHECK (kind IN ('webhook', 'nats', 'tail')),
    address           varchar(2000)  NOT NULL,              -- the URL that is called; '' of a tail
    types             varchar(32)[]  NOT NULL DEFAULT '{}', -- the events that it wants; empty: all
    batch             integer        NOT NULL DEFAULT 1 CHECK (batch BETWEEN 1 AND 1000),  -- events in one call
    private_addresses boolean        NOT NULL DEFAULT false,  -- whether hosts of the own network may be called
    secrets           varchar(200)[] NOT NULL DEFAULT '{}', -- what calls are signed with, the newest first
    old_secrets_until timestamptz,                          -- until then also the older secrets sign
    state             varchar(8)     NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'disabled')),
    reason            varchar(400)   NOT NULL DEFAULT '',   -- why it is in this state
    since             timestamptz    NOT NULL DEFAULT now(),
    expires_at        timestamptz                           -- of a tail, which extends it; then it counts no more
);

-- How far each sink has come, and how its receiver does: written some times a second while events flow. All transactions
-- visible in `seen` are delivered; of those that became visible between `seen` and `upto`, the ones up to (after_xid,
-- after_entry).
CREATE TABLE event_cursor (
    sink          varchar(40)  PRIMARY KEY REFERENCES event_sink ON DELETE CASCADE,
    seen          pg_snapshot  NOT NULL DEFAULT pg_current_snapshot(),
    upto          pg_snapshot  NOT NULL DEFAULT pg_current_snapshot(),
    after_xid     xid8         NOT NULL DEFAULT '0',
    after_entry   bigint       NOT NULL DEFAULT 0,
    delivered     bigint       NOT NULL DEFAULT 0,   -- events
    delivered_at  timestamptz,                       -- when the last one was
    error         varchar(400) NOT NULL DEFAULT '',  -- what the last failed call met, or else what holds it; '' after a success
    failing_since timestamptz,                       -- since when; NULL if the last call succeeded, and nothing holds it
    lost_until    timestamptz   -- entries written before this were deleted unread: it was behind for too long
) WITH (fillfactor = 50);

-- Events that one sink refuses while it accepts others: they are retried apart, and given up as dead letters in the end.
-- While one is retried, later events of its envelope wait behind it.
CREATE TABLE event_retry (
    retry_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sink        varchar(40)  NOT NULL REFERENCES event_sink ON DELETE CASCADE,
    envelope_id bigint       NOT NULL,
    event_id    varchar(64)  NOT NULL,
    body        text         NOT NULL,  -- the event, JSON
    tries       integer      NOT NULL,
    since       timestamptz  NOT NULL DEFAULT now(),
    next_at     timestamptz,            -- NULL: a dead letter, which waits for an operator
    reason      varchar(400) NOT NULL,
    UNIQUE (sink, event_id)
);
CREATE INDEX event_retry_envelope ON event_retry (sink, envelope_id, retry_id);

-- The register of days: one row per database (xx) and business date that is no longer `hot`. A day without a row is
-- hot.
CREATE TABLE day_register (
    day             date        NOT NULL,
    xx              smallint    NOT NULL CHECK (xx BETWEEN 0 AND 99),
    state           varchar(8)  NOT NULL CHECK (state IN ('closed', 'detached', 'exported', 'verified', 'dropped')),
    since           timestamptz NOT NULL DEFAULT now(),
    envelopes       bigint      NOT NULL,
    claims          bigint      NOT NULL,  -- rows of the claim log, the closing ones too
    paid_in_fen     bigint      NOT NULL,
    claimed_fen     bigint      NOT NULL,
    refunded_fen    bigint      NOT NULL,
    manifest_sha256 varchar(64),  -- of the archive's manifest, from `exported` on
    PRIMARY KEY (day, xx),
    CHECK (paid_in_fen = claimed_fen + refunded_fen),
    CHECK ((state IN ('closed', 'detached')) = (manifest_sha256 IS NULL)),
    CHECK (manifest_sha256 ~ '^[0-9a-f]{64}$')
);

-- What operators and the daemon did to the days, and why. Rows cannot be changed or deleted (trigger below).
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

-- The journal of moves of databases to other SETs, kept in the SET that gives the database away. One move per database
-- at a time.
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

-- The watermark of a live move, replicated with the rows: once a beat has arrived, so has every row written before it.
CREATE TABLE move_beat (
    xx   smallint PRIMARY KEY,
    beat bigint NOT NULL
);

-- The fence of a database that moves away: a row trigger on its leaves, made by the move and dropped with them.
-- Revoking grants would not do: a leaf's grants are not checked when a row is written through the parent.
CREATE FUNCTION moved_away() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'db_% is on its way to another SET', TG_ARGV[0] USING ERRCODE = 'HB002', DETAIL = TG_ARGV[0];
END $$;

-- The fence of a day that is being closed: the row trigger `day_fence` on its tables and all their leaves. The setnode
-- recognizes the SQLSTATE and finds the day in DETAIL.
CREATE FUNCTION refuse_closed_day() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the day % is closed', TG_ARGV[0] USING ERRCODE = 'HB001', DETAIL = TG_ARGV[0], TABLE = TG_TABLE_NAME;
END $$;

CREATE FUNCTION refuse_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of % is refused: what stands there stays', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'HB003', TABLE = TG_TABLE_NAME;
END $$;
CREATE TRIGGER operation_log_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON operation_log
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_changes();
ALTER TABLE operation_log ENABLE ALWAYS TRIGGER operation_log_stays;
CREATE TRIGGER day_register_stays BEFORE DELETE OR TRUNCATE ON day_register
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_changes();
ALTER TABLE day_register ENABLE ALWAYS TRIGGER day_register_stays;

CREATE FUNCTION refuse_state(row_day date, row_xx smallint, row_state text, because text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'db_% of % cannot be %: %', lpad(row_xx::text, 2, '0'), row_day, row_state, because
        USING ERRCODE = 'HB004', TABLE = 'day_register';
END $$;

-- The tables of a day and the leaves of one database under them, each with its schema.
CREATE FUNCTION day_relations(of_day date, of_xx smallint)
RETURNS TABLE (relation oid, leaf boolean, stands_in name) LANGUAGE sql STABLE AS $$
    WITH day_tables AS (
        SELECT c.oid FROM pg_class c
        WHERE c.relnamespace = 'public'::regnamespace
            AND c.relname IN (
                'envelope_' || to_char(of_day, 'YYYYMMDD'), 'claim_' || to_char(of_day, 'YYYYMMDD'),
                'guest_' || to_char(of_day, 'YYYYMMDD'))
    )
    SELECT oid, false, 'public'::name FROM day_tables
    UNION ALL
    SELECT c.oid, true, n.nspname FROM day_tables d
    JOIN pg_inherits i ON i.inhparent = d.oid JOIN pg_class c ON c.oid = i.inhrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname IN (
        'db_' || lpad(of_xx::text, 2, '0'), 'cold_' || lpad(of_xx::text, 2, '0') || to_char(of_day, '_YYYYMMDD'))
$$;

-- Required of a database and day from `closed` on: all its tables exist and are fenced. From `detached` on, too: no
-- table of the day is attached to the hot tables, and its leaves are in the cold schema, where next month's names do
-- not collide.
CREATE FUNCTION prove_stands(said day_register) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    cold name := format('cold_%s_%s', lpad(said.xx::text, 2, '0'), to_char(said.day, 'YYYYMMDD'));
    found record;
BEGIN
    SELECT count(*) AS relations, count(*) FILTER (WHERE r.leaf AND r.stands_in = cold) AS away,
        count(*) FILTER (WHERE EXISTS (
            SELECT FROM pg_trigger t WHERE t.tgrelid = r.relation AND t.tgname = 'day_fence' AND t.tgenabled = 'A'
                AND t.tgfoid = 'public.refuse_closed_day()'::regprocedure)) AS fenced,
        count(*) FILTER (WHERE NOT r.leaf AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = r.relation)) AS hot
    INTO found FROM day_relations(said.day, said.xx) r;
    IF found.relations <> 24 THEN
        PERFORM refuse_state(said.day, said.xx, said.state, 'its 3 day tables and 21 leaves are not all there');
    ELSIF found.fenced <> 24 THEN
        PERFORM refuse_state(said.day, said.xx, said.state, 'a table of the day has no fence');
    ELSIF said.state <> 'closed' AND found.hot > 0 THEN
        PERFORM refuse_state(said.day, said.xx, said.state, 'the day still belongs to the hot tables');
    ELSIF said.state <> 'closed' AND found.away <> 21 THEN
        PERFORM refuse_state(said.day, said.xx, said.state, format('its 21 leaves are not all in %s', cold));
    END IF;
END $$;

-- Required for `closed`: every envelope is final, and the register's sums are those of the rows. That nothing waits to
-- be closed or paid is checked by the guard, once for all rows.
CREATE FUNCTION prove_closed(said day_register) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    tag text := to_char(said.day, 'YYYYMMDD');
    slots text := format('slot BETWEEN %s AND %s', said.xx * 10, said.xx * 10 + 9);
    found record;
BEGIN
    EXECUTE format(
        'SELECT e.envelope_id FROM (SELECT * FROM public.envelope_%1$s WHERE %2$s) e '
        'FULL JOIN (SELECT envelope_id, sum(amount_fen) AS fen FROM public.claim_%1$s WHERE %2$s GROUP BY 1) c '
        'USING (envelope_id) WHERE c.fen IS DISTINCT FROM e.total_fen LIMIT 1', tag, slots) INTO found;
    IF found.envelope_id IS NOT NULL THEN
        PERFORM refuse_state(said.day, said.xx, said.state, format('envelope %s is still open', found.envelope_id));
    END IF;
    EXECUTE format(
        'SELECT * FROM (SELECT count(*) AS envelopes, coalesce(sum(total_fen), 0) AS paid_in_fen '
        'FROM public.envelope_%1$s WHERE %2$s) e, (SELECT count(*) AS claims, '
        'coalesce(sum(amount_fen) FILTER (WHERE kind = ''open''), 0) AS claimed_fen, '
        'coalesce(sum(amount_fen) FILTER (WHERE kind <> ''open''), 0) AS refunded_fen '
        'FROM public.claim_%1$s WHERE %2$s) c', tag, slots) INTO found;
    IF (found.envelopes, found.claims, found.paid_in_fen, found.claimed_fen, found.refunded_fen) IS DISTINCT FROM
        (said.envelopes, said.claims, said.paid_in_fen::numeric, said.claimed_fen::numeric, said.refunded_fen::numeric)
    THEN
        PERFORM refuse_state(said.day, said.xx, said.state, 'its sums are not those of its rows');
    END IF;
END $$;

-- Required for `dropped`: no leaf and no cold schema is left.
CREATE FUNCTION prove_dropped(said day_register) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM day_relations(said.day, said.xx) WHERE leaf;
    IF FOUND OR EXISTS (
        SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = format('cold_%s_%s', lpad(said.xx::text, 2, '0'), to_char(said.day, 'YYYYMMDD')))
    THEN
        PERFORM refuse_state(said.day, said.xx, said.state, 'its tables still stand');
    END IF;
END $$;

-- The guard of the register. A day enters as `closed`, or as `dropped` if it has no table here (a database that moved
-- in brings the days that are only archived), and advances one step at a time, each proven in the same transaction. One
-- step back is allowed: an archive found corrupt while the tables exist is exported again, and then has to be verified
-- again. Without a step the manifest alone may be replaced, of a day whose archive was rewritten because a user was
-- forgotten: only together with a line of the operation log, of the same transaction, that names both manifests.
CREATE FUNCTION guard_day_register() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    said day_register;
    wrong record;
BEGIN
    IF TG_OP = 'INSERT' THEN
        SELECT * INTO wrong FROM said_now WHERE state NOT IN ('closed', 'dropped') LIMIT 1;
    ELSE
        SELECT n.day, n.xx, coalesce(n.state, 'changed') AS state INTO wrong
        FROM said_before b FULL JOIN said_now n USING (day, xx)
        WHERE b.state IS NULL OR n.state IS NULL
            OR (b.state, n.state) NOT IN (
                ('closed', 'detached'), ('detached', 'exported'), ('exported', 'verified'), ('verified', 'dropped'),
                ('exported', 'exported'), ('verified', 'exported'), ('verified', 'verified'), ('dropped', 'dropped'))
            OR (b.envelopes, b.claims, b.paid_in_fen, b.claimed_fen, b.refunded_fen)
                <> (n.envelopes, n.claims, n.paid_in_fen, n.claimed_fen, n.refunded_fen)
            OR (b.state <> n.state AND n.state <> 'exported' AND b.manifest_sha256 IS DISTINCT FROM n.manifest_sha256)
            OR (b.state = n.state AND n.state <> 'exported' AND NOT EXISTS (
                SELECT FROM operation_log o
                WHERE o.xmin = pg_current_xact_id()::xid AND o.what = 'forget' AND o.day = n.day AND o.xx = n.xx
                    AND b.manifest_sha256 <> n.manifest_sha256
                    AND o.proof LIKE '%' || b.manifest_sha256 || '%' || n.manifest_sha256 || '%'))
        LIMIT 1;
    END IF;
    IF FOUND THEN
        PERFORM refuse_state(wrong.day, wrong.xx, wrong.state, 'the register goes one step at a time and changes no sums');
    END IF;
    SELECT n.day, n.xx, n.state, w.what, w.envelope_id INTO wrong
    FROM said_now n JOIN (
        SELECT envelope_id, 'waits for its end' AS what FROM due
        UNION ALL SELECT unnest(envelope_ids), 'waits to be paid' FROM payout_batch
        UNION ALL SELECT envelope_id, 'has a stuck payout' FROM payout_stuck
    ) w ON w.envelope_id / 10000000000000 = to_char(n.day, 'YYMMDD')::bigint AND w.envelope_id % 1000 / 10 = n.xx
    WHERE n.state = 'closed' LIMIT 1;
    IF FOUND THEN
        PERFORM refuse_state(
            wrong.day, wrong.xx, wrong.state, format('envelope %s %s', wrong.envelope_id, wrong.what));
    END IF;
    FOR said IN SELECT * FROM said_now ORDER BY day, xx LOOP
        IF said.state = 'dropped' THEN
            PERFORM prove_dropped(said);
        ELSE
            PERFORM prove_stands(said);
        END IF;
        IF said.state = 'closed' THEN
            PERFORM prove_closed(said);
        END IF;
    END LOOP;
    RETURN NULL;
END $$;
CREATE TRIGGER day_register_insert AFTER INSERT ON day_register REFERENCING NEW TABLE AS said_now
    FOR EACH STATEMENT EXECUTE FUNCTION guard_day_register();
ALTER TABLE day_register ENABLE ALWAYS TRIGGER day_register_insert;
CREATE TRIGGER day_register_update AFTER UPDATE ON day_register REFERENCING OLD TABLE AS said_before NEW TABLE AS said_now
    FOR EACH STATEMENT EXECUTE FUNCTION guard_day_register();
ALTER TABLE day_register ENABLE ALWAYS TRIGGER day_register_update;

-- Replace a user's name on rows of one business day, hot or detached: on the headers, the claims and the guests that are
-- named. Nothing but names, greetings and seals can be changed by it. `sent` says of each header whether the user is its
-- sender, whose words go with the name; `seals` are those of the headers as they are afterwards. Guests are all that
-- have the name. Returns how many headers, claims and guests were changed; raises an error, and changes nothing, unless
-- each header and claim that is named was found once under the old name.
--
-- Lock: the rows. Of a day that is closed its fence is lifted within the transaction, which locks the day's three tables
-- against writers (SHARE ROW EXCLUSIVE) until it ends. Scans the guests of the day; index: the unique keys.
CREATE FUNCTION forget_name(
    of_day date, old_name varchar, new_name varchar,
    headers bigint[], sent boolean[], seals varchar[], claims bigint[], seqs integer[]
) RETURNS bigint[] LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    tag text := to_char(of_day, 'YYYYMMDD');
    fenced name[];
    one name;
    headers_changed bigint;
    claims_changed bigint;
    guests_changed bigint;
BEGIN
    IF new_name !~ '^gone-.{26}$' OR old_name ~ '^gone-.{26}$' OR old_name = '' THEN
        RAISE EXCEPTION 'a name is replaced by a pseudonym, never the other way' USING ERRCODE = 'HB005';
    END IF;
    SELECT coalesce(array_agg(c.relname ORDER BY c.relname), '{}') INTO fenced
    FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
    WHERE t.tgname = 'day_fence' AND c.relnamespace = 'public'::regnamespace
        AND c.relname IN ('envelope_' || tag, 'claim_' || tag, 'guest_' || tag);
    FOREACH one IN ARRAY fenced LOOP
        EXECUTE format('ALTER TABLE public.%I DISABLE TRIGGER day_fence', one);
    END LOOP;
    EXECUTE format(
        'UPDATE public.envelope_%s e SET header_seal = n.seal, sender = CASE WHEN n.sent THEN $5 ELSE e.sender END, '
        'greeting = CASE WHEN n.sent THEN '''' ELSE e.greeting END '
        'FROM unnest($1, $2, $3) AS n (envelope_id, sent, seal) '
        'WHERE e.envelope_id = n.envelope_id AND e.slot = n.envelope_id %% 1000 AND (e.sender = $4 OR NOT n.sent)', tag)
    USING headers, sent, seals, old_name, new_name;
    GET DIAGNOSTICS headers_changed = ROW_COUNT;
    EXECUTE format(
        'UPDATE public.claim_%s c SET user_id = $4 FROM unnest($1, $2) AS n (envelope_id, seq) '
        'WHERE c.envelope_id = n.envelope_id AND c.slot = n.envelope_id %% 1000 AND c.seq = n.seq AND c.user_id = $3',
        tag)
    USING claims, seqs, old_name, new_name;
    GET DIAGNOSTICS claims_changed = ROW_COUNT;
    EXECUTE format('UPDATE public.guest_%s SET user_id = $2 WHERE user_id = $1', tag) USING old_name, new_name;
    GET DIAGNOSTICS guests_changed = ROW_COUNT;
    IF headers_changed <> cardinality(headers) OR claims_changed <> cardinality(claims) THEN
        RAISE EXCEPTION '% headers and % claims were named, % and % found', cardinality(headers), cardinality(claims),
            headers_changed, claims_changed USING ERRCODE = 'HB005';
    END IF;
    FOREACH one IN ARRAY fenced LOOP
        EXECUTE format('ALTER TABLE public.%I ENABLE ALWAYS TRIGGER day_fence', one);
    END LOOP;
    RETURN ARRAY[headers_changed, claims_changed, guests_changed];
END $$;

-- Name another manifest for a day whose archive was rewritten because a user was forgotten, and log it: one transaction,
-- as the guard of the register demands. Sums and state stay. Index: the register's primary key. Lock: its row.
CREATE FUNCTION replace_manifest(
    of_day date, of_xx smallint, before varchar, after varchar, by_whom varchar, because varchar
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO operation_log (who, what, day, xx, reason, proof)
    VALUES (by_whom, 'forget', of_day, of_xx, because, json_build_object('before', before, 'after', after)::text);
    UPDATE day_register SET manifest_sha256 = after WHERE day = of_day AND xx = of_xx AND manifest_sha256 = before;
    IF NOT FOUND THEN
        PERFORM refuse_state(of_day, of_xx, 'changed', 'the register names another manifest than the one replaced');
    END IF;
END $$;

-- The business date by this server's own clock, in the business zone (UTC+8; Shanghai has no summer time). Closing a
-- day is irreversible, so the caller's date is checked against it. If it returns NULL, nothing is checked: only tests
-- that run in another year replace it so, as the owner.
CREATE FUNCTION business_today() RETURNS date LANGUAGE sql STABLE AS $$
    SELECT ((now() AT TIME ZONE 'UTC') + interval '8 hours')::date
$$;

-- Required of a whole day before any of it is `closed`: it is at least two business days past, no move works on its
-- leaves, and no leaf has rows of a database that is not closed with it.
CREATE FUNCTION guard_closing() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    closing record;
    leaf record;
    filled boolean;
BEGIN
    FOR closing IN SELECT day, min(xx) AS xx FROM said_now WHERE state = 'closed' GROUP BY day ORDER BY day LOOP
        IF closing.day > business_today() - 2 THEN
            PERFORM refuse_state(closing.day, closing.xx, 'closed',
                format('here it is %s, and a day is closed from two days after it on', business_today()));
        END IF;
        FOR leaf IN
            SELECT c.oid::regclass AS name, substring(n.nspname FROM '^(?:db|cold)_(\d\d)')::smallint AS xx,
                EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname = 'moved_away') AS moves
            FROM pg_class d JOIN pg_inherits i ON i.inhparent = d.oid JOIN pg_class c ON c.oid = i.inhrelid
            JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE d.relnamespace = 'public'::regnamespace AND d.relname IN (
                'envelope_' || to_char(closing.day, 'YYYYMMDD'), 'claim_' || to_char(closing.day, 'YYYYMMDD'),
                'guest_' || to_char(closing.day, 'YYYYMMDD'))
            ORDER BY n.nspname, c.relname
        LOOP
            IF leaf.moves THEN
                PERFORM refuse_state(closing.day, leaf.xx, 'closed', format('a move is at work on %s', leaf.name));
            END IF;
            CONTINUE WHEN EXISTS (SELECT FROM day_register r WHERE r.day = closing.day AND r.xx = leaf.xx);
            EXECUTE format('SELECT EXISTS (SELECT FROM %s)', leaf.name) INTO filled;
            IF filled THEN
                PERFORM refuse_state(closing.day, closing.xx, 'closed',
                    format('%s has rows of a database that is not closed with it', leaf.name));
            END IF;
        END LOOP;
    END LOOP;
    RETURN NULL;
END $$;
CREATE TRIGGER day_register_whole AFTER INSERT ON day_register REFERENCING NEW TABLE AS said_now
    FOR EACH STATEMENT EXECUTE FUNCTION guard_closing();
ALTER TABLE day_register ENABLE ALWAYS TRIGGER day_register_whole;

-- Roles: the setnode inserts, the audit reads; only the owner creates, drops, or changes what was written.
GRANT USAGE ON SCHEMA public TO hongbao_setnode, hongbao_audit, hongbao_events;
GRANT SELECT, INSERT ON envelope, claim TO hongbao_setnode;
GRANT SELECT, INSERT, UPDATE (wrong_tries) ON guest TO hongbao_setnode;
GRANT SELECT, INSERT, DELETE ON due, payout_batch, payout_stuck TO hongbao_setnode;
GRANT SELECT, UPDATE (after) ON fund_cursor TO hongbao_setnode;
GRANT SELECT, INSERT ON fund_set_apart TO hongbao_setnode;
GRANT SELECT, INSERT, DELETE ON foreign_write TO hongbao_setnode;
GRANT SELECT ON day_register, operation_log, published, belongs_to TO hongbao_setnode;
GRANT INSERT ON event_log TO hongbao_setnode;
GRANT SELECT (name, expires_at) ON event_sink TO hongbao_setnode;
GRANT SELECT, DELETE ON event_log TO hongbao_events;
GRANT SELECT, INSERT, UPDATE, DELETE ON event_sink, event_cursor, event_retry TO hongbao_events;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO hongbao_audit;
-- The secrets of sinks are for the events process alone.
REVOKE ALL ON event_sink FROM hongbao_audit;
REVOKE EXECUTE ON FUNCTION forget_name, replace_manifest FROM PUBLIC;
