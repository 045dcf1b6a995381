-- drop_old: delete entries that were written before $1, $2 at most, from the transaction $3 on, and note it at the sinks
-- that had not passed them. Returns how many.
-- Index: event_log's primary key (the oldest entries are the first). Lock: the deleted rows, those cursors.
WITH gone AS (
    DELETE FROM event_log WHERE (xid, entry_id) IN (
        SELECT xid, entry_id FROM (
            SELECT xid, entry_id, written_at FROM event_log WHERE xid >= $3::text::xid8 ORDER BY xid, entry_id LIMIT $2
        ) AS oldest
        WHERE written_at < $1)
    RETURNING xid
), noted AS (
    UPDATE event_cursor SET lost_until = $1
    WHERE EXISTS (SELECT FROM gone WHERE gone.xid >= pg_snapshot_xmin(seen))
)
SELECT count(*) FROM gone
