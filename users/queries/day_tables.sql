-- day_tables: the business days, as YYYYMMDD, of which there are all three tables, hot or detached. Index: the catalog's.
-- Lock: none.
SELECT right(relname, 8) AS digits FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind = 'p' AND relname ~ '^(envelope|claim|guest)_[0-9]{8}$'
GROUP BY 1 HAVING count(*) = 3 ORDER BY 1
