-- moving: the schemas whose leaves of some day tables ($1: their names) a move has fenced (moving/leaves.py). Lock: none.
SELECT DISTINCT n.nspname AS stands_in FROM pg_class d
JOIN pg_inherits i ON i.inhparent = d.oid JOIN pg_class c ON c.oid = i.inhrelid
JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_trigger t ON t.tgrelid = c.oid
WHERE d.relnamespace = 'public'::regnamespace AND d.relname = ANY($1::text[]) AND t.tgname = 'moved_away'
ORDER BY 1
