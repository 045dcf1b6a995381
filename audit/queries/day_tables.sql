-- day_tables: the tables of whole days that are detached from the hot ones, and that this role may read.
-- Index: those of the catalog. Lock: none.
SELECT c.relname AS name FROM pg_class c
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'p' AND NOT c.relispartition
    AND c.relname ~ '^(envelope|claim|guest)_[0-9]{8}$' AND has_table_privilege(c.oid, 'SELECT')
