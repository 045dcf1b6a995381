-- Events for programs that follow an installation: what a commit wrote, and who has received it.
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
    error         varchar(400) NOT NULL DEFAULT '',  -- what the last failed call met; '' after a success
    failing_since timestamptz,                       -- no call has succeeded since; NULL if the last one did
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

GRANT USAGE ON SCHEMA public TO hongbao_events;
GRANT INSERT ON event_log TO hongbao_setnode;
GRANT SELECT (name, expires_at) ON event_sink TO hongbao_setnode;
GRANT SELECT, DELETE ON event_log TO hongbao_events;
GRANT SELECT, INSERT, UPDATE, DELETE ON event_sink, event_cursor, event_retry TO hongbao_events;
GRANT SELECT ON event_log, event_cursor, event_retry TO hongbao_audit;
