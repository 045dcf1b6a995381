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

GRANT SELECT ON day_register, operation_log TO hongbao_setnode, hongbao_audit;
