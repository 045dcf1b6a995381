-- day_tables: every table of a whole day, or of one ($1): whether it hangs under its hot table, its detach is pending, it has a fence.
-- Index: those of the catalog. Lock: none.
SELECT split_part(d.relname, '_', 1) AS kind, to_date(right(d.relname, 8), 'YYYYMMDD') AS day,
    i.inhrelid IS NOT NULL AS attached, coalesce(i.inhdetachpending, false) AS pending,
    EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = d.oid AND t.tgname = 'day_fence') AS fenced
FROM pg_class d LEFT JOIN pg_inherits i ON i.inhrelid = d.oid
WHERE d.relnamespace = 'public'::regnamespace AND d.relkind = 'p' AND d.relname ~ '^(envelope|claim|guest)_[0-9]{8}$'
    AND ($1::date IS NULL OR right(d.relname, 8) = to_char($1::date, 'YYYYMMDD'))
ORDER BY day, kind
