-- Daily limits for users, counted where all SETs meet. Explained in schema/wallet.sql.

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

REVOKE EXECUTE ON FUNCTION take_places, give_back_places, forget_places FROM PUBLIC;
GRANT EXECUTE ON FUNCTION take_places, give_back_places, forget_places TO hongbao_wallet;
GRANT SELECT ON day_place, place_lock TO hongbao_audit;
