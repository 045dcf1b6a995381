-- 0012 Users can be forgotten: their name is replaced on rows and in archives, and nothing else is. Explained in
-- schema/set.sql and docs/decisions/0050-a-user-is-forgotten.md. Lock: none.

CREATE OR REPLACE FUNCTION guard_day_register() RETURNS trigger LANGUAGE plpgsql AS $$
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

REVOKE EXECUTE ON FUNCTION forget_name, replace_manifest FROM PUBLIC;
