-- The wallet's database, to be read. The migrations in wallet/ build it; tests/integration/schema/test_schema.py
-- compares them.

-- Accounts. A balance is kept beside the transfers so that "is there enough money?" reads one row instead of a sum.
-- It is moved by `post` alone, together with the transfers, so it is their sum; the audit compares them.
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
    -- Whatever the code does, no account spends more than it has. Only `outside` is negative: by all that was
    -- deposited.
    CONSTRAINT account_not_negative CHECK (kind = 2 OR balance_fen >= 0)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);
-- fillfactor: a balance changes in place (HOT) as long as its page has room; no index holds balance_fen.

-- For the sum in escrow, and for the proof that a day's escrows are zero, without reading the users' accounts.
CREATE INDEX account_escrow ON account (account_id) WHERE kind = 1;

-- Transfers. One row is both postings, so all postings sum to zero. Rows are never changed or deleted. There are no
-- foreign keys to account, which would cost two look-ups and two row locks per credit: `post` counts the accounts it
-- moved instead, and the audit joins both ways.
CREATE TABLE transfer (
    transfer_id    bigint GENERATED ALWAYS AS IDENTITY,
    debit_account  bigint NOT NULL,
    credit_account bigint NOT NULL,
    user_account   bigint NOT NULL,             -- the user whose history shows it
    amount_fen     bigint NOT NULL,
    envelope_id    bigint,
    created_at     timestamptz NOT NULL DEFAULT now(),
    kind           smallint NOT NULL,           -- 0 deposit, 1 fund, 2 claim, 3 refund (wallet.postings.TransferKind)
    order_no       varchar(64) COLLATE "C" NOT NULL,
    -- At most once. The numbers of payouts begin with the envelope's 19 digits, so the index also serves ranges by
    -- envelope and day.
    CONSTRAINT transfer_order UNIQUE (order_no),
    CONSTRAINT transfer_amount CHECK (amount_fen > 0),
    CONSTRAINT transfer_two_sides CHECK (debit_account <> credit_account),
    -- A deposit credits the user, a fund debits the user; a payout never debits the user (through a provider it credits
    -- neither).
    CONSTRAINT transfer_kind CHECK (
        (kind = 0 AND envelope_id IS NULL AND user_account = credit_account)
        OR (kind = 1 AND envelope_id IS NOT NULL AND user_account = debit_account)
        OR (kind IN (2, 3) AND envelope_id IS NOT NULL AND user_account <> debit_account)
    )
) WITH (autovacuum_vacuum_insert_scale_factor = 0.02);
-- autovacuum: totals are read from the index alone where pages were vacuumed (docs/decisions/0044).

-- Histories, lists and totals by user. There is no primary key on transfer_id: it would be a third index to write per
-- credit, and no statement looks up by it alone.
CREATE INDEX transfer_statement ON transfer (user_account, transfer_id) INCLUDE (created_at, amount_fen, kind);
-- Envelopes that a user sent, among however many receipts. Written by creates only.
CREATE INDEX transfer_sent ON transfer (user_account, transfer_id) WHERE kind = 1;

-- Deposits come from `outside` and go to a user. A row trigger only for them: the other kinds pay nothing for it.
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

-- Creates whose money was taken: one row per (sender, Idempotency-Key), written with its transfer. Only left_fen
-- changes afterwards.
CREATE TABLE fund (
    fund_id      bigint GENERATED ALWAYS AS IDENTITY,
    envelope_id  bigint NOT NULL,
    user_account bigint NOT NULL,
    total_fen    bigint NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    create_key   varchar(32) COLLATE "C" NOT NULL,
    fingerprint  varchar(64) COLLATE "C" NOT NULL,   -- of the request body: the same key with another body is refused
    left_fen     bigint NOT NULL,                    -- of the total, what was not yet paid to winners or back to the sender
    header_hash  bytea NOT NULL,                     -- SHA-256 of the header that it pays for (envelope/header_hash.py)
    draft        bytea NOT NULL,                     -- what a repeat of the create needs to make the same header
    CONSTRAINT fund_create_key PRIMARY KEY (create_key),
    CONSTRAINT fund_order UNIQUE (fund_id),          -- the sweepers' cursor
    CONSTRAINT fund_envelope UNIQUE (envelope_id),   -- one payment per envelope
    CONSTRAINT fund_amount CHECK (total_fen > 0),
    -- Escrows are pooled by day and slot; this keeps an envelope from being paid out of the money of another.
    CONSTRAINT fund_left CHECK (left_fen >= 0 AND left_fen <= total_fen),
    -- In a database that is older than header_hash: OR fund_id <= the last one without.
    CONSTRAINT fund_header CHECK (octet_length(header_hash) = 32 OR fund_id <= 0)
) WITH (autovacuum_vacuum_scale_factor = 0.05, fillfactor = 45);
-- fillfactor: left_fen changes in place (HOT), once per batch that pays for the envelope; envelopes made together are
-- paid together, so a page has room for a second version of each of its rows.

-- The ledger's lock: a table without rows that only its owner may lock against others, so through `post` and
-- `hold_ledger` alone. An advisory lock could be taken, and held, by every role that can log in.
CREATE TABLE ledger_lock ();

-- Take the ledger's lock for a transaction that reads or creates accounts before it posts.
CREATE FUNCTION hold_ledger() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    LOCK TABLE ledger_lock IN EXCLUSIVE MODE;
END $$;

-- Write a batch: take the ledger's lock, record the creates, insert the transfers, move the balances and what is left of
-- each fund by them. It is the only way to write money: the wallet's role has no right to the tables but to open an
-- account, whose balance is 0.
-- Arguments: array literals (runtime.postgres.arrays); `named` is the number of accounts among debits and credits.
-- Returns NULL once it is written, or the name of the constraint that refused it: then nothing was written.
--
-- Lock: one batch writes at a time, however many wallet processes there are. So rows become visible in the order of
-- transfer_id and fund_id, and two batches cannot deadlock over account rows. Without this lock the money would still
-- be right (UNIQUE, CHECK, row locks); the order of fund_id, which the sweepers' cursor needs, would not. Then the
-- accounts' rows and the funds' rows, in order of account_id and envelope_id.
--
-- Refusals: a known order number is refused by UNIQUE, a balance below zero, or payouts of an envelope above what was
-- paid in for it, by CHECK; the batch is then decided again, with what the database knows. They are caught here, so that
-- a user without money is no ERROR in the server's log. (ON CONFLICT DO NOTHING would make the usual case slower.) If
-- fewer accounts moved than were named, one is missing, or its user was forgotten and the caller has its number from
-- before: that is an error, nothing is written, and the wallet looks the names up again.
--
-- It is a function so that a batch of payouts is one round trip, commit included; each statement in it sees what was
-- committed before the lock was granted. `unnest` in the SELECT list goes row by row; in FROM, Postgres would first
-- write each array to a table of its own, which is slower.
--
-- Index: transfer_order, transfer_statement, fund_create_key, fund_order (written), fund_envelope (read and written),
-- account_pkey (read).
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

-- Places of a business day: an envelope of which a user may win a share on it. Written only where a daily limit is set
-- (setnode/daily.py), before the share is won. An open that wins none gives back what it took; `held` counts those that
-- have not, so that no open takes the place of another one of the same user. There is a place for each share won.
CREATE TABLE day_place (
    envelope_id bigint NOT NULL,
    day         date   NOT NULL,
    held        integer NOT NULL DEFAULT 1,
    user_id     varchar(40) COLLATE "C" NOT NULL,
    sender      varchar(40) COLLATE "C" NOT NULL,
    CONSTRAINT day_place_key PRIMARY KEY (day, user_id, envelope_id)
);

-- Held while places are taken: two processes that count at the same time would each find the last place free.
CREATE TABLE place_lock ();

-- Take a place for each (user, sender, envelope), in order; one that is there is taken once more, whatever the limits.
-- Returns for each: 0 it has one, 1 the user has `most` places of the day, 2 they have `most_of_sender` at this sender.
-- A limit of 0 is none. Index: day_place_key.
CREATE FUNCTION take_places(
    today date, users varchar[], senders varchar[], envelopes bigint[], most integer, most_of_sender integer
) RETURNS integer[] LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    results integer[] := '{}';
BEGIN
    LOCK TABLE place_lock IN EXCLUSIVE MODE;
    FOR i IN 1 .. cardinality(users) LOOP
        UPDATE day_place SET held = held + 1
        WHERE day = today AND user_id = users[i] AND envelope_id = envelopes[i];
        IF FOUND THEN
            results := results || 0;
        ELSIF most > 0 AND (SELECT count(*) FROM day_place WHERE day = today AND user_id = users[i]) >= most THEN
            results := results || 1;
        ELSIF most_of_sender > 0 AND (
            SELECT count(*) FROM day_place WHERE day = today AND user_id = users[i] AND sender = senders[i]
        ) >= most_of_sender THEN
            results := results || 2;
        ELSE
            INSERT INTO day_place (day, user_id, sender, envelope_id)
            VALUES (today, users[i], senders[i], envelopes[i]);
            results := results || 0;
        END IF;
    END LOOP;
    RETURN results;
END $$;

-- Give back what was taken for each (user, envelope); a repeat would give back what another open holds.
-- Index: day_place_key.
CREATE FUNCTION give_back_places(today date, users varchar[], envelopes bigint[])
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    LOCK TABLE place_lock IN EXCLUSIVE MODE;
    FOR i IN 1 .. cardinality(users) LOOP
        DELETE FROM day_place
        WHERE day = today AND user_id = users[i] AND envelope_id = envelopes[i] AND held = 1;
        IF NOT FOUND THEN
            UPDATE day_place SET held = held - 1
            WHERE day = today AND user_id = users[i] AND envelope_id = envelopes[i];
        END IF;
    END LOOP;
END $$;

-- Forget places of days before `first`, at most `at_once`; returns how many. Index: day_place_key.
CREATE FUNCTION forget_places(first date, at_once integer)
RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH old AS (
        SELECT day, user_id, envelope_id FROM day_place WHERE day < first ORDER BY day LIMIT at_once
    ), gone AS (
        DELETE FROM day_place USING old
        WHERE day_place.day = old.day AND day_place.user_id = old.user_id AND day_place.envelope_id = old.envelope_id
        RETURNING 1
    )
    SELECT count(*) FROM gone
$$;
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


-- Jobs that run now and then (audit, backups): when each has last succeeded and failed, so that one that stops running is
-- missed. The audit is known from the beginning, another job once it has run.
CREATE TABLE job_run (
    job          varchar(32) COLLATE "C" NOT NULL,
    known_since  timestamptz NOT NULL DEFAULT clock_timestamp(),
    succeeded_at timestamptz,
    failed_at    timestamptz,
    failure      varchar(400),  -- why it failed last, as a sentence; NULL if it never did
    CONSTRAINT job_run_job PRIMARY KEY (job),
    CONSTRAINT job_run_name CHECK (job ~ '^[a-z][a-z-]*$')
);
INSERT INTO job_run (job) VALUES ('audit');

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

-- Note that a job has succeeded, or with `why` that it has failed. Index: job_run_job.
CREATE FUNCTION note_job(name varchar, why varchar) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    INSERT INTO job_run AS known (job, succeeded_at, failed_at, failure)
    VALUES (name, CASE WHEN why IS NULL THEN clock_timestamp() END, CASE WHEN why IS NOT NULL THEN clock_timestamp() END,
        left(why, 400))
    ON CONFLICT ON CONSTRAINT job_run_job DO UPDATE SET
        succeeded_at = coalesce(excluded.succeeded_at, known.succeeded_at),
        failed_at = coalesce(excluded.failed_at, known.failed_at),
        failure = coalesce(excluded.failure, known.failure)
$$;

-- Roles: the wallet reads, opens accounts and calls the two functions; the audit reads, and notes that a job has run; only
-- the owner can change or delete what was written.
GRANT USAGE ON SCHEMA public TO hongbao_wallet, hongbao_audit;
GRANT SELECT ON account, transfer, fund, published, belongs_to, job_run TO hongbao_wallet;
GRANT INSERT (name, kind) ON account TO hongbao_wallet;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO hongbao_audit;
REVOKE EXECUTE ON FUNCTION post, hold_ledger, deposit_rules FROM PUBLIC;
GRANT EXECUTE ON FUNCTION post, hold_ledger TO hongbao_wallet;
REVOKE EXECUTE ON FUNCTION take_places, give_back_places, forget_places FROM PUBLIC;
GRANT EXECUTE ON FUNCTION take_places, give_back_places, forget_places TO hongbao_wallet;
REVOKE EXECUTE ON FUNCTION begin_forgetting, replace_header_hashes FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION note_job FROM PUBLIC;
GRANT EXECUTE ON FUNCTION note_job TO hongbao_audit;
