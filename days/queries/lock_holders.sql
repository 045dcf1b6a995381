-- lock_holders: the processes that hold a lock on some tables ($1: names with schema), their partitions or the tables
-- that they are partitions of. $2 how many. Index: those of pg_inherits; the lock table is in memory. Lock: none (that of
-- pg_partition_tree would wait for whoever changes the table).
WITH RECURSIVE named AS (
    SELECT to_regclass(name)::oid AS relation FROM unnest($1::text[]) AS name
), below AS (
    SELECT relation FROM named UNION SELECT i.inhrelid FROM below b JOIN pg_inherits i ON i.inhparent = b.relation
), above AS (
    SELECT relation FROM named UNION SELECT i.inhparent FROM above a JOIN pg_inherits i ON i.inhrelid = a.relation
)
SELECT DISTINCT l.pid, coalesce(a.usename, '?') AS usename
FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.granted AND l.pid <> pg_backend_pid()
    AND l.relation IN (SELECT relation FROM below UNION ALL SELECT relation FROM above)
ORDER BY l.pid LIMIT $2
