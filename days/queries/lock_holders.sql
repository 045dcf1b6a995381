-- lock_holders: the processes that hold a lock on some tables ($1: names with schema), their partitions or the tables
-- that they are partitions of. $2 how many. Index: none, the lock table is in memory. Lock: none.
SELECT DISTINCT l.pid, coalesce(a.usename, '?') AS usename
FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.granted AND l.pid <> pg_backend_pid() AND l.relation IN (
    SELECT to_regclass(name)::oid FROM unnest($1::text[]) AS name
    UNION ALL SELECT t.relid::oid FROM unnest($1::text[]) AS name, pg_partition_tree(to_regclass(name)) AS t
    UNION ALL SELECT t.relid::oid FROM unnest($1::text[]) AS name, pg_partition_ancestors(to_regclass(name)) AS t
)
ORDER BY l.pid LIMIT $2
