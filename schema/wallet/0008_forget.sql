-- 0008 Users can be forgotten: their account gets a pseudonym, and `post` refuses one that has it. Explained in
-- schema/wallet.sql and docs/decisions/0050-a-user-is-forgotten.md. Lock: none.

CREATE OR REPLACE FUNCTION post(
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
            AND account.name NOT LIKE 'user:gone-__________________________'
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
    -- Of a payout through a channel the user's own account does not move, and shows it all the same.
    IF users <> credits AND EXISTS (
        SELECT FROM unnest(users::bigint[], credits::bigint[], kinds::smallint[]) AS t (user_account, credit, kind)
        JOIN account a ON a.account_id = t.user_account
        WHERE t.kind = 2 AND t.credit <> t.user_account AND a.name LIKE 'user:gone-__________________________')
    THEN
        RAISE EXCEPTION 'an account was named whose user is forgotten';
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

-- Users who are being forgotten: the old name stands here until it stands nowhere else, so that the work can be finished
-- after a kill. account_id is NULL for one who was only invited and never had an account.
CREATE TABLE forgetting (
    name       varchar(40) COLLATE "C" NOT NULL,
    pseudonym  varchar(40) COLLATE "C" NOT NULL,
    account_id bigint,
    begun_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT forgetting_name PRIMARY KEY (name),
    CONSTRAINT forgetting_pseudonym CHECK (pseudonym ~ '^gone-.{26}$')
);

-- Users who were forgotten, by a MAC of their name under a key that no database has, and the day: so that a second
-- request can be answered. Nothing here leads to the pseudonym.
CREATE TABLE forgotten (
    name_mac bytea NOT NULL,
    day      date  NOT NULL,
    CONSTRAINT forgotten_name PRIMARY KEY (name_mac)
);

-- What was done to forget a user, step by step, under the pseudonym.
CREATE TABLE forget_log (
    entry_id  bigint GENERATED ALWAYS AS IDENTITY,
    at        timestamptz NOT NULL DEFAULT now(),
    pseudonym varchar(40) COLLATE "C" NOT NULL,
    step      varchar(64) NOT NULL,   -- begun; a SET and a day; an archive's day and database; places; done
    changed   bigint NOT NULL,        -- rows that had the name
    who       varchar(64) NOT NULL,
    reason    varchar(200) NOT NULL,
    CONSTRAINT forget_log_entry PRIMARY KEY (entry_id)
);

-- Begin to forget a user: under the ledger's lock, so that nothing is posted meanwhile, their account gets the pseudonym
-- as its name and the journal its row. Refused, by returning why, and nothing is changed: `unknown` (there is no such
-- account, and one is needed), `balance` (not 0, and it is not to be left), `open` (money of the user's envelopes is not
-- all paid out). Index: account_name, transfer_sent, fund_envelope. Lock: the ledger's.
CREATE FUNCTION begin_forgetting(
    old_name varchar, new_name varchar, leave_balance boolean, without_account boolean, by_whom varchar, because varchar
) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    found_id bigint;
    found_fen bigint;
BEGIN
    LOCK TABLE ledger_lock IN EXCLUSIVE MODE;
    IF old_name LIKE 'gone-__________________________' THEN
        RAISE EXCEPTION 'a pseudonym is not forgotten' USING ERRCODE = 'HB005';
    END IF;
    SELECT account_id, balance_fen INTO found_id, found_fen FROM account WHERE name = 'user:' || old_name AND kind = 0;
    IF found_id IS NULL AND NOT without_account THEN
        RETURN 'unknown';
    ELSIF found_fen <> 0 AND NOT leave_balance THEN
        RETURN 'balance';
    ELSIF EXISTS (
        SELECT FROM transfer t JOIN fund f ON f.envelope_id = t.envelope_id
        WHERE t.user_account = found_id AND t.kind = 1 AND f.left_fen > 0)
    THEN
        RETURN 'open';
    END IF;
    INSERT INTO forgetting (name, pseudonym, account_id) VALUES (old_name, new_name, found_id);
    UPDATE account SET name = 'user:' || new_name WHERE account_id = found_id;
    INSERT INTO forget_log (pseudonym, step, changed, who, reason)
    VALUES (new_name, 'begun', (found_id IS NOT NULL)::integer, by_whom, because);
    RETURN NULL;
END $$;

-- Replace the hashes of headers that are written anew for a user who is being forgotten. A hash that is neither the one
-- before nor the one after is an error, and nothing is changed. Returns how many were replaced. Index: fund_envelope.
CREATE FUNCTION replace_header_hashes(envelopes bigint[], hashes_before bytea[], hashes_after bytea[])
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    replaced bigint;
    wrong bigint;
BEGIN
    UPDATE fund SET header_hash = n.after
    FROM unnest(envelopes, hashes_before, hashes_after) AS n (envelope_id, before, after)
    WHERE fund.envelope_id = n.envelope_id AND fund.header_hash = n.before AND n.before <> n.after;
    GET DIAGNOSTICS replaced = ROW_COUNT;
    SELECT n.envelope_id INTO wrong
    FROM unnest(envelopes, hashes_after) AS n (envelope_id, after) LEFT JOIN fund f ON f.envelope_id = n.envelope_id
    WHERE f.header_hash IS DISTINCT FROM n.after LIMIT 1;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'the fund of % has the hash of another header', wrong USING ERRCODE = 'HB005';
    END IF;
    RETURN replaced;
END $$;

GRANT SELECT ON forgetting, forgotten, forget_log TO hongbao_audit;
REVOKE EXECUTE ON FUNCTION begin_forgetting, replace_header_hashes FROM PUBLIC;
