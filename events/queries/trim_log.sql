-- trim_log: delete entries that every sink has passed, $1 at most, from the transaction $2 on; all if there is no sink.
-- Returns how many, and the transaction from which the next call begins: what was deleted is not looked at again, also
-- while an old snapshot keeps it.
-- In the middle of a span a sink has passed what lies before its last entry and was complete where the span ends.
-- Index: event_log's primary key. Lock: the deleted rows.
WITH cursors AS (
    SELECT greatest(pg_snapshot_xmin(seen), least(after_xid, pg_snapshot_xmin(upto))) AS passed
    FROM event_cursor JOIN event_sink ON name = sink WHERE expires_at IS NULL OR expires_at > now()
), oldest AS (
    SELECT coalesce((SELECT passed FROM cursors ORDER BY passed LIMIT 1), pg_snapshot_xmin(pg_current_snapshot())) AS xid
), gone AS (
    DELETE FROM event_log WHERE (xid, entry_id) IN (
        SELECT log.xid, log.entry_id FROM event_log log
        WHERE log.xid >= $2::text::xid8 AND log.xid < (SELECT xid FROM oldest)
        ORDER BY log.xid, log.entry_id LIMIT $1)
    RETURNING xid
)
SELECT count(*) AS deleted,
    CASE WHEN count(*) < $1 THEN (SELECT xid FROM oldest)::text
    ELSE (SELECT xid FROM gone ORDER BY xid DESC LIMIT 1)::text END AS next
FROM gone
