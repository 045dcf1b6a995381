-- save_cursor: how far the sink $1 has come: $2 seen, $3 upto, $4 after_xid, $5 after_entry; $6 events delivered since the
-- last save, $7 whether one was; $8 the last error ('' after a success), $9 since when it fails; $10 since when the sink has
-- been in its state, as it was read. Returns the sink's name; nothing if it was removed, or is another one of this name by
-- now: what was delivered to the old one says nothing of what the new one has got. Index: the primary keys. Lock: the row.
UPDATE event_cursor SET seen = $2::text::pg_snapshot, upto = $3::text::pg_snapshot, after_xid = $4::text::xid8,
    after_entry = $5, delivered = delivered + $6, delivered_at = CASE WHEN $7 THEN now() ELSE delivered_at END, error = $8,
    failing_since = $9
FROM event_sink WHERE sink = $1 AND name = $1 AND since = $10
RETURNING sink
