-- leaves: the tables of one database's schema, each with the day table that it is a partition of (NULL: of none), that
-- one's place in the hot table (NULL: detached), and whether it is fenced. $1: the schema. Lock: none.
SELECT c.relname AS leaf, p.relname AS day_table, r.relname AS root,
    EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname = 'moved_away') AS fenced
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
LEFT JOIN pg_class p ON p.oid = i.inhparent
LEFT JOIN pg_inherits j ON j.inhrelid = p.oid
LEFT JOIN pg_class r ON r.oid = j.inhparent
WHERE n.nspname = $1 AND c.relkind = 'r'
ORDER BY c.relname
