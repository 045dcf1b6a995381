-- trim_log: delete entries that every sink has passed, $1 at most; all if there is no sink. Returns how many.
-- Index: event_log's primary key. Lock: the deleted rows.
WITH passed AS (
    SELECT coalesce(
        (SELECT pg_snapshot_xmin(seen) FROM event_sink WHERE expires_at IS NULL OR expires_at > now()
            ORDER BY pg_snapshot_xmin(seen) LIMIT 1),
        pg_snapshot_xmin(pg_current_snapshot())) AS xid
), gone AS (
    DELETE FROM event_log WHERE (xid, entry_id) IN (
        SELECT log.xid, log.entry_id FROM event_log log WHERE log.xid < (SELECT xid FROM passed)
        ORDER BY log.xid, log.entry_id LIMIT $1)
    RETURNING 1
)
SELECT count(*) FROM gone
