-- 0001 The ledger: accounts, transfers and the money of creates. Explained in schema/wallet.sql.

CREATE TABLE account (
    account_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        varchar(64) COLLATE "C" NOT NULL,
    kind        smallint NOT NULL,
    balance_fen bigint NOT NULL DEFAULT 0,
    CONSTRAINT account_name UNIQUE (name),
    CONSTRAINT account_kind CHECK (
        (kind = 0 AND name LIKE 'user:_%')
        OR (kind = 1 AND name LIKE 'escrow:______:%')
        OR (kind = 2 AND name = 'outside')
        OR (kind = 3 AND name LIKE 'channel:_%')
    ),
    CONSTRAINT account_not_negative CHECK (kind = 2 OR balance_fen >= 0)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX account_escrow ON account (account_id) WHERE kind = 1;

CREATE TABLE transfer (
    transfer_id    bigint GENERATED ALWAYS AS IDENTITY,
    debit_account  bigint NOT NULL,
    credit_account bigint NOT NULL,
    user_account   bigint NOT NULL,
    amount_fen     bigint NOT NULL,
    envelope_id    bigint,
    created_at     timestamptz NOT NULL DEFAULT now(),
    kind           smallint NOT NULL,
    order_no       varchar(64) COLLATE "C" NOT NULL,
    CONSTRAINT transfer_order UNIQUE (order_no),
    CONSTRAINT transfer_amount CHECK (amount_fen > 0),
    CONSTRAINT transfer_two_sides CHECK (debit_account <> credit_account),
    CONSTRAINT transfer_kind CHECK (
        (kind = 0 AND envelope_id IS NULL AND user_account = credit_account)
        OR (kind = 1 AND envelope_id IS NOT NULL AND user_account = debit_account)
        OR (kind IN (2, 3) AND envelope_id IS NOT NULL AND user_account <> debit_account)
    )
);

CREATE INDEX transfer_statement ON transfer (user_account, transfer_id);

CREATE TABLE fund (
    fund_id      bigint GENERATED ALWAYS AS IDENTITY,
    envelope_id  bigint NOT NULL,
    user_account bigint NOT NULL,
    total_fen    bigint NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    create_key   varchar(32) COLLATE "C" NOT NULL,
    fingerprint  varchar(64) COLLATE "C" NOT NULL,
    CONSTRAINT fund_create_key PRIMARY KEY (create_key),
    CONSTRAINT fund_order UNIQUE (fund_id),
    CONSTRAINT fund_envelope UNIQUE (envelope_id),
    CONSTRAINT fund_amount CHECK (total_fen > 0)
);

-- Roles: the wallet appends and moves balances, the audit reads, nobody but the owner changes or deletes what was written.
GRANT USAGE ON SCHEMA public TO hongbao_wallet, hongbao_audit;
GRANT SELECT, INSERT ON transfer, fund TO hongbao_wallet;
GRANT SELECT, INSERT, UPDATE (balance_fen) ON account TO hongbao_wallet;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO hongbao_audit;
