-- What lets one part's fault stay with that part:
-- foreign_write: which envelopes a stand-in has written, so that an owner who missed the notification reads these logs
-- again and not all.
-- fund_set_apart: funds that the sweeper has passed without a header, for an operator.
-- payout_stuck.amount_fen: the sum of what is stuck is read without the claims.
CREATE TABLE foreign_write (
    write_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    envelope_id bigint      NOT NULL,
    xid         bigint      NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    at          timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX foreign_write_xid ON foreign_write (xid);

CREATE TABLE fund_set_apart (
    fund_id     bigint       PRIMARY KEY,
    envelope_id bigint       NOT NULL,
    sender      varchar(64)  NOT NULL,
    total_fen   bigint       NOT NULL,
    reason      varchar(200) NOT NULL,
    since       timestamptz  NOT NULL DEFAULT now()
);

ALTER TABLE payout_stuck ADD COLUMN amount_fen bigint NOT NULL DEFAULT 0;
UPDATE payout_stuck s SET amount_fen = c.amount_fen FROM claim c
WHERE c.envelope_id = s.envelope_id AND c.slot = s.envelope_id % 1000 AND c.seq = s.seq;

GRANT SELECT, INSERT, DELETE ON foreign_write TO hongbao_setnode;
GRANT SELECT, INSERT ON fund_set_apart TO hongbao_setnode;
GRANT SELECT ON foreign_write, fund_set_apart TO hongbao_audit;
