-- trim_log: delete entries that every sink has passed, $1 at most; all if there is no sink. Returns how many.
-- In the middle of a span a sink has passed what lies before its last entry and was complete where the span ends.
-- Index: event_log's primary key. Lock: the deleted rows.
WITH sink AS (
    SELECT greatest(pg_snapshot_xmin(seen), least(after_xid, pg_snapshot_xmin(upto))) AS passed
    FROM event_sink WHERE expires_at IS NULL OR expires_at > now()
), oldest AS (
    SELECT coalesce((SELECT passed FROM sink ORDER BY passed LIMIT 1), pg_snapshot_xmin(pg_current_snapshot())) AS xid
), gone AS (
    DELETE FROM event_log WHERE (xid, entry_id) IN (
        SELECT log.xid, log.entry_id FROM event_log log WHERE log.xid < (SELECT xid FROM oldest)
        ORDER BY log.xid, log.entry_id LIMIT $1)
    RETURNING 1
)
SELECT count(*) FROM gone
