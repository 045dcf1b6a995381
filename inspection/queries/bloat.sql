-- bloat: the tables with the most dead rows, and how far each is from a forced vacuum. Reads statistics only.
-- $1 how many. Lock: ACCESS SHARE on the relations whose size it reads, one after the other.
SELECT s.schemaname || '.' || s.relname AS name, s.n_live_tup AS live, s.n_dead_tup AS dead,
    pg_total_relation_size(s.relid) AS bytes, age(c.relfrozenxid) AS xid_age,
    greatest(s.last_vacuum, s.last_autovacuum) AS vacuumed_at
FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
WHERE s.n_dead_tup > 0
ORDER BY s.n_dead_tup DESC, name LIMIT $1
