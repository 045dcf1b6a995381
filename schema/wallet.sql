-- The wallet's database, readable. The truth is what the migrations in schema/wallet/ build; a test proves that both
-- are the same.

-- Where money can be. A balance is kept beside the transfers so that "may he pay?" is one row, not a sum; it is moved
-- only by the statement that inserts the transfers (wallet/queries/post.sql), so it is their sum, and the audit proves it.
CREATE TABLE account (
    account_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        varchar(64) COLLATE "C" NOT NULL,
    kind        smallint NOT NULL,              -- 0 user, 1 escrow, 2 outside, 3 channel (wallet.postings.AccountKind)
    balance_fen bigint NOT NULL DEFAULT 0,
    CONSTRAINT account_name UNIQUE (name),
    -- user:<id>; escrow:<YYMMDD>:<slot>; outside (deposits come from it); channel:<name> (paid out there)
    CONSTRAINT account_kind CHECK (
        (kind = 0 AND name LIKE 'user:_%')
        OR (kind = 1 AND name LIKE 'escrow:______:%')
        OR (kind = 2 AND name = 'outside')
        OR (kind = 3 AND name LIKE 'channel:_%')
    ),
    -- Holds against wrong code: nobody spends what he has not got. The outside alone owes what was deposited.
    CONSTRAINT account_not_negative CHECK (kind = 2 OR balance_fen >= 0)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);
-- fillfactor: a balance changes in place (HOT) as long as its page has room; no index holds balance_fen.

-- For the money in escrow and the proof that a day's escrows are zero, without reading the users.
CREATE INDEX account_escrow ON account (account_id) WHERE kind = 1;

-- Money moved: one row is both postings, so all postings sum to zero by construction. Rows are never changed or deleted.
-- No foreign keys to account: two look-ups and two row locks per credit. post.sql counts the accounts it moved instead,
-- and the audit joins both ways.
CREATE TABLE transfer (
    transfer_id    bigint GENERATED ALWAYS AS IDENTITY,
    debit_account  bigint NOT NULL,
    credit_account bigint NOT NULL,
    user_account   bigint NOT NULL,             -- whose statement shows it
    amount_fen     bigint NOT NULL,
    envelope_id    bigint,
    created_at     timestamptz NOT NULL DEFAULT now(),
    kind           smallint NOT NULL,           -- 0 deposit, 1 fund, 2 claim, 3 refund (wallet.postings.Kind)
    order_no       varchar(64) COLLATE "C" NOT NULL,
    -- Exactly once. Payout numbers begin with the envelope's 19 digits, so it also serves ranges by envelope, day and slot.
    CONSTRAINT transfer_order UNIQUE (order_no),
    CONSTRAINT transfer_amount CHECK (amount_fen > 0),
    CONSTRAINT transfer_two_sides CHECK (debit_account <> credit_account),
    -- A deposit goes to the user, a fund comes from him, a payout never takes from him (a provider's goes past him).
    CONSTRAINT transfer_kind CHECK (
        (kind = 0 AND envelope_id IS NULL AND user_account = credit_account)
        OR (kind = 1 AND envelope_id IS NOT NULL AND user_account = debit_account)
        OR (kind IN (2, 3) AND envelope_id IS NOT NULL AND user_account <> debit_account)
    )
);
-- Statements and lists by user. There is no primary key on transfer_id: it would be a third index to write per credit
-- and nobody asks by it alone.
CREATE INDEX transfer_statement ON transfer (user_account, transfer_id);

-- Creates paid in. One row per (sender, Idempotency-Key), written with its transfer.
CREATE TABLE fund (
    fund_id      bigint GENERATED ALWAYS AS IDENTITY,
    envelope_id  bigint NOT NULL,
    user_account bigint NOT NULL,
    total_fen    bigint NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    create_key   varchar(32) COLLATE "C" NOT NULL,
    fingerprint  varchar(64) COLLATE "C" NOT NULL,   -- of the request body: same key with another one is refused
    CONSTRAINT fund_create_key PRIMARY KEY (create_key),
    CONSTRAINT fund_order UNIQUE (fund_id),          -- the sweepers' cursor
    CONSTRAINT fund_envelope UNIQUE (envelope_id),   -- one payment per envelope
    CONSTRAINT fund_amount CHECK (total_fen > 0)
);

-- Roles: the wallet appends and moves balances, the audit reads, nobody but the owner changes or deletes what was written.
GRANT USAGE ON SCHEMA public TO hongbao_wallet, hongbao_audit;
GRANT SELECT, INSERT ON transfer, fund TO hongbao_wallet;
GRANT SELECT, INSERT, UPDATE (balance_fen) ON account TO hongbao_wallet;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO hongbao_audit;
