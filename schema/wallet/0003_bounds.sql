-- 0003 What leaves an escrow for an envelope is bounded by what was paid in for it; deposits come from outside; `post` is
-- the only way to write money; a fund keeps a hash of the header that it pays for. Explained in schema/wallet.sql.

DROP FUNCTION post;

ALTER TABLE fund ADD COLUMN left_fen bigint, ADD COLUMN header_hash bytea NOT NULL DEFAULT '',
    ADD COLUMN draft bytea NOT NULL DEFAULT '';
UPDATE fund SET left_fen = fund.total_fen - coalesce(paid.fen, 0)
FROM fund AS same
LEFT JOIN (
    SELECT envelope_id, sum(amount_fen)::bigint AS fen FROM transfer WHERE kind IN (2, 3) GROUP BY envelope_id
) AS paid ON paid.envelope_id = same.envelope_id
WHERE same.fund_id = fund.fund_id;
ALTER TABLE fund ALTER COLUMN left_fen SET NOT NULL, ALTER COLUMN header_hash DROP DEFAULT,
    ALTER COLUMN draft DROP DEFAULT,
    ADD CONSTRAINT fund_left CHECK (left_fen >= 0 AND left_fen <= total_fen);
ALTER TABLE fund SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
DO $$
BEGIN
    -- Funds of before have no hash; every later one has.
    EXECUTE format(
        'ALTER TABLE fund ADD CONSTRAINT fund_header CHECK (octet_length(header_hash) = 32 OR fund_id <= %s)',
        (SELECT coalesce(max(fund_id), 0) FROM fund));
END $$;

CREATE FUNCTION deposit_rules() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    -- A missing account is found by `post`, which counts the accounts that it moved, and by the audit.
    IF (SELECT kind FROM account WHERE account_id = NEW.debit_account) <> 2
        OR (SELECT kind FROM account WHERE account_id = NEW.credit_account) <> 0 THEN
        RAISE EXCEPTION 'deposit % does not go from outside to a user', NEW.order_no
            USING ERRCODE = 'check_violation', TABLE = 'transfer', CONSTRAINT = 'transfer_deposit';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER transfer_deposit BEFORE INSERT OR UPDATE ON transfer
    FOR EACH ROW WHEN (NEW.kind = 0) EXECUTE FUNCTION deposit_rules();

CREATE TABLE ledger_lock ();

CREATE FUNCTION hold_ledger() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    LOCK TABLE ledger_lock IN EXCLUSIVE MODE;
END $$;

CREATE FUNCTION post(
    order_nos text, kinds text, debits text, credits text, users text, amounts text, envelopes text, named integer,
    fund_keys text, fund_prints text, fund_users text, fund_totals text, fund_envelopes text, fund_headers text,
    fund_drafts text
) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    moved_accounts integer;
    missing_funds integer;
    refused_by text;
BEGIN
    LOCK TABLE ledger_lock IN EXCLUSIVE MODE;
    IF fund_keys <> '{}' THEN
        INSERT INTO fund (create_key, fingerprint, user_account, total_fen, left_fen, envelope_id, header_hash, draft)
        SELECT unnest(fund_keys::varchar[]), unnest(fund_prints::varchar[]), unnest(fund_users::bigint[]),
            unnest(fund_totals::bigint[]), unnest(fund_totals::bigint[]), unnest(fund_envelopes::bigint[]),
            decode(unnest(fund_headers::text[]), 'hex'), decode(unnest(fund_drafts::text[]), 'hex');
    END IF;
    WITH posted AS (
        INSERT INTO transfer (order_no, kind, debit_account, credit_account, user_account, amount_fen, envelope_id)
        SELECT unnest(order_nos::varchar[]), unnest(kinds::smallint[]), unnest(debits::bigint[]),
            unnest(credits::bigint[]), unnest(users::bigint[]), unnest(amounts::bigint[]), unnest(envelopes::bigint[])
        RETURNING kind, debit_account, credit_account, amount_fen, envelope_id
    ), delta AS (
        SELECT side.account_id, sum(side.change_fen)::bigint AS change_fen
        FROM (
            SELECT debit_account AS account_id, -amount_fen AS change_fen FROM posted
            UNION ALL
            SELECT credit_account, amount_fen FROM posted
        ) AS side
        GROUP BY side.account_id
        ORDER BY side.account_id
    ), moved AS (
        UPDATE account SET balance_fen = account.balance_fen + delta.change_fen
        FROM delta WHERE account.account_id = delta.account_id
        RETURNING 1
    ), paid AS (
        SELECT envelope_id, sum(amount_fen)::bigint AS fen FROM posted WHERE kind IN (2, 3)
        GROUP BY envelope_id ORDER BY envelope_id
    ), taken AS (
        UPDATE fund SET left_fen = fund.left_fen - paid.fen
        FROM paid WHERE fund.envelope_id = paid.envelope_id
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM moved), (SELECT count(*) FROM paid) - (SELECT count(*) FROM taken)
    INTO moved_accounts, missing_funds;
    IF moved_accounts <> named THEN
        RAISE EXCEPTION '% accounts were named, % moved', named, moved_accounts;
    END IF;
    IF missing_funds > 0 THEN
        RAISE EXCEPTION 'nothing was paid in for % of the envelopes', missing_funds
            USING ERRCODE = 'check_violation', TABLE = 'fund', CONSTRAINT = 'fund_missing';
    END IF;
    RETURN NULL;
EXCEPTION WHEN check_violation OR unique_violation THEN
    GET STACKED DIAGNOSTICS refused_by = CONSTRAINT_NAME;
    RETURN refused_by;
END $$;

GRANT SELECT ON ledger_lock TO hongbao_audit;
REVOKE EXECUTE ON FUNCTION post, hold_ledger, deposit_rules FROM PUBLIC;
GRANT EXECUTE ON FUNCTION post, hold_ledger TO hongbao_wallet;
REVOKE INSERT ON transfer, fund FROM hongbao_wallet;
REVOKE INSERT, UPDATE (balance_fen) ON account FROM hongbao_wallet;
GRANT INSERT (name, kind) ON account TO hongbao_wallet;
