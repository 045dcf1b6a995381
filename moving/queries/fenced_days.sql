-- fenced_days: the business dates round which rotation has put a fence (rotation/fence.py); one that was killed may not
-- have entered them into the register yet. Index: none, the catalog. Lock: none.
SELECT DISTINCT to_date(right(c.relname, 8), 'YYYYMMDD') AS day FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE t.tgname = 'day_fence' AND c.relnamespace = 'public'::regnamespace
