-- The business date by this server's own clock, in the business zone (no time zone data is asked: Shanghai has no summer
-- time). What is closed is closed for ever, so whoever closes is not believed about the date. NULL believes everybody:
-- only tests that live in another year replace it, as the owner.
CREATE FUNCTION business_today() RETURNS date LANGUAGE sql STABLE AS $$
    SELECT ((now() AT TIME ZONE 'UTC') + interval '8 hours')::date
$$;

-- What must hold for a whole day before any of it is `closed`: it is at least two business days past, no move is at work
-- on one of its leaves, and no leaf has rows of a database that the register then says nothing about.
CREATE FUNCTION guard_closing() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    closing record;
    leaf record;
    filled boolean;
BEGIN
    FOR closing IN SELECT day, min(xx) AS xx FROM said_now WHERE state = 'closed' GROUP BY day ORDER BY day LOOP
        IF closing.day > business_today() - 2 THEN
            PERFORM refuse_state(closing.day, closing.xx, 'closed',
                format('here it is %s, and a day is closed from two days after it on', business_today()));
        END IF;
        FOR leaf IN
            SELECT c.oid::regclass AS name, substring(n.nspname FROM '^(?:db|cold)_(\d\d)')::smallint AS xx,
                EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname = 'moved_away') AS moves
            FROM pg_class d JOIN pg_inherits i ON i.inhparent = d.oid JOIN pg_class c ON c.oid = i.inhrelid
            JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE d.relnamespace = 'public'::regnamespace AND d.relname IN (
                'envelope_' || to_char(closing.day, 'YYYYMMDD'), 'claim_' || to_char(closing.day, 'YYYYMMDD'),
                'guest_' || to_char(closing.day, 'YYYYMMDD'))
            ORDER BY n.nspname, c.relname
        LOOP
            IF leaf.moves THEN
                PERFORM refuse_state(closing.day, leaf.xx, 'closed', format('a move is at work on %s', leaf.name));
            END IF;
            CONTINUE WHEN EXISTS (SELECT FROM day_register r WHERE r.day = closing.day AND r.xx = leaf.xx);
            EXECUTE format('SELECT EXISTS (SELECT FROM %s)', leaf.name) INTO filled;
            IF filled THEN
                PERFORM refuse_state(closing.day, closing.xx, 'closed',
                    format('%s has rows of a database that is not closed with it', leaf.name));
            END IF;
        END LOOP;
    END LOOP;
    RETURN NULL;
END $$;
CREATE TRIGGER day_register_whole AFTER INSERT ON day_register REFERENCING NEW TABLE AS said_now
    FOR EACH STATEMENT EXECUTE FUNCTION guard_closing();
ALTER TABLE day_register ENABLE ALWAYS TRIGGER day_register_whole;
