-- leaves: the leaves of all day tables, or of one day's ($1), attached or not: the schema where each stands, its size.
-- Index: those of the catalog. Lock: none.
SELECT split_part(d.relname, '_', 1) AS kind, to_date(right(d.relname, 8), 'YYYYMMDD') AS day, n.nspname AS stands_in,
    -- A size is of now, not of the snapshot: NULL for a leaf that has gone since.
    count(*) AS leaves, coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint AS bytes,
    sum(greatest(c.reltuples, 0))::bigint AS rows_about
FROM pg_class d
JOIN pg_inherits i ON i.inhparent = d.oid JOIN pg_class c ON c.oid = i.inhrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE d.relnamespace = 'public'::regnamespace AND d.relkind = 'p' AND d.relname ~ '^(envelope|claim|guest)_[0-9]{8}$'
    AND ($1::date IS NULL OR right(d.relname, 8) = to_char($1::date, 'YYYYMMDD'))
GROUP BY d.relname, n.nspname
ORDER BY day, kind, stands_in
