-- catalog: what the day tables cost before a row is in them. Relations of this database by kind, their files' number,
-- the bytes of the system catalog, and the lock table's size. Index: none, the catalog is small. Lock: ACCESS SHARE on the relations whose size it reads, one after the other.
SELECT
    (SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace IN
        (SELECT oid FROM pg_namespace WHERE nspname ~ '^(db|cold|restored)_\d\d')) AS leaves,
    (SELECT count(*) FROM pg_class) AS relations,
    (SELECT count(*) FROM pg_class WHERE relfilenode <> 0 OR relkind IN ('r', 'i', 't', 'S', 'm')) AS files,
    (SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
        WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r') AS catalog_bytes,
    pg_database_size(current_database()) AS database_bytes,
    current_setting('max_locks_per_transaction')::bigint
        * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint) AS lock_slots,
    (SELECT count(*) FROM pg_locks) AS locks_held,
    current_setting('max_connections')::int AS max_connections
