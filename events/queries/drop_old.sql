-- drop_old: delete entries that were written more than $1 seconds ago, $2 at most, from the transaction $3 on, and note it
-- at the sinks that had not passed them. Returns how many a sink had not passed.
-- Index: event_log's primary key (the oldest entries are the first). Lock: the deleted rows, those cursors.
WITH gone AS (
    DELETE FROM event_log WHERE (xid, entry_id) IN (
        SELECT xid, entry_id FROM (
            SELECT xid, entry_id, written_at FROM event_log WHERE xid >= $3::text::xid8 ORDER BY xid, entry_id LIMIT $2
        ) AS oldest
        WHERE written_at < now() - make_interval(secs => $1))
    RETURNING xid, entry_id
), missed AS (
    SELECT sink, entry_id
    FROM event_cursor JOIN event_sink ON name = sink AND (expires_at IS NULL OR expires_at > now())
    JOIN gone ON NOT pg_visible_in_snapshot(xid, seen)
        AND NOT (pg_visible_in_snapshot(xid, upto) AND (xid, entry_id) <= (after_xid, after_entry))
), noted AS (
    UPDATE event_cursor SET lost_until = now() - make_interval(secs => $1) WHERE sink IN (SELECT sink FROM missed)
)
SELECT count(DISTINCT entry_id) FROM missed
