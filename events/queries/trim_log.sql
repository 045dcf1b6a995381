-- trim_log: delete entries that every sink has passed, $1 at most, from the transaction $2 on; all if there is no sink.
-- Returns how many, and the transaction from which the next call begins: what was deleted is not looked at again, also
-- while an old snapshot keeps it.
-- Index: event_log's primary key. Lock: the deleted rows.
WITH passed AS (
    SELECT coalesce(
        (SELECT pg_snapshot_xmin(seen) FROM event_cursor JOIN event_sink ON sink = name
            WHERE expires_at IS NULL OR expires_at > now() ORDER BY pg_snapshot_xmin(seen) LIMIT 1),
        pg_snapshot_xmin(pg_current_snapshot())) AS xid
), gone AS (
    DELETE FROM event_log WHERE (xid, entry_id) IN (
        SELECT log.xid, log.entry_id FROM event_log log
        WHERE log.xid >= $2::text::xid8 AND log.xid < (SELECT xid FROM passed)
        ORDER BY log.xid, log.entry_id LIMIT $1)
    RETURNING xid
)
SELECT count(*) AS deleted,
    CASE WHEN count(*) < $1 THEN (SELECT xid FROM passed)::text
    ELSE (SELECT xid FROM gone ORDER BY xid DESC LIMIT 1)::text END AS next
FROM gone
