-- 0002 A batch is written by one statement: what wallet/queries/post.sql and post_funds.sql did becomes a function, which holds the
-- ledger, writes the postings, moves the balances and records the creates. Explained in schema/wallet.sql.

CREATE FUNCTION post(
    order_nos text, kinds text, debits text, credits text, users text, amounts text, envelopes text, named integer,
    fund_keys text, fund_prints text, fund_users text, fund_totals text, fund_envelopes text
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    moved_accounts integer;
BEGIN
    PERFORM pg_advisory_xact_lock(7110001);
    WITH posted AS (
        INSERT INTO transfer (order_no, kind, debit_account, credit_account, user_account, amount_fen, envelope_id)
        SELECT unnest(order_nos::varchar[]), unnest(kinds::smallint[]), unnest(debits::bigint[]),
            unnest(credits::bigint[]), unnest(users::bigint[]), unnest(amounts::bigint[]), unnest(envelopes::bigint[])
        RETURNING debit_account, credit_account, amount_fen
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
    )
    SELECT count(*) INTO moved_accounts FROM moved;
    IF moved_accounts <> named THEN
        RAISE EXCEPTION '% accounts were named, % moved', named, moved_accounts;
    END IF;
    IF fund_keys <> '{}' THEN
        INSERT INTO fund (create_key, fingerprint, user_account, total_fen, envelope_id)
        SELECT unnest(fund_keys::varchar[]), unnest(fund_prints::varchar[]), unnest(fund_users::bigint[]),
            unnest(fund_totals::bigint[]), unnest(fund_envelopes::bigint[]);
    END IF;
END $$;

REVOKE EXECUTE ON FUNCTION post FROM PUBLIC;
GRANT EXECUTE ON FUNCTION post TO hongbao_wallet;
