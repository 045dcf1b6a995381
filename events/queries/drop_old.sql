-- drop_old: delete entries that were written more than $1 seconds ago, $2 at most, and note it at the sinks that had not
-- passed them. Returns how many a sink had not passed.
-- Index: event_log's primary key (the oldest entries are the first). Lock: the deleted rows, those sinks.
WITH gone AS (
    DELETE FROM event_log WHERE (xid, entry_id) IN (
        SELECT xid, entry_id FROM (SELECT xid, entry_id, written_at FROM event_log ORDER BY xid, entry_id LIMIT $2) AS oldest
        WHERE written_at < now() - make_interval(secs => $1))
    RETURNING xid, entry_id
), missed AS (
    SELECT name, entry_id FROM gone JOIN event_sink ON NOT pg_visible_in_snapshot(xid, seen)
        AND NOT (pg_visible_in_snapshot(xid, upto) AND (xid, entry_id) <= (after_xid, after_entry))
    WHERE expires_at IS NULL OR expires_at > now()
), noted AS (
    UPDATE event_sink SET lost_until = now() - make_interval(secs => $1) WHERE name IN (SELECT name FROM missed)
)
SELECT count(DISTINCT entry_id) FROM missed
