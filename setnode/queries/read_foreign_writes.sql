-- read_foreign_writes: what stand-ins have written in transactions that had not ended at the last look.
-- $1 the `next_xid` of the last look: transactions below it had ended then, and were seen; NULL for none. $2 how many rows.
-- `started_at` changes if the rows are another server's: after a failover or a restore nothing known holds.
-- Index: foreign_write_xid. Lock: none.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS next_xid, pg_postmaster_start_time() AS started_at,
    extract(epoch FROM clock_timestamp())::float8 AS at_s,
    array(SELECT write_id FROM foreign_write WHERE xid >= $1 ORDER BY write_id LIMIT $2) AS write_ids,
    array(SELECT envelope_id FROM foreign_write WHERE xid >= $1 ORDER BY write_id LIMIT $2) AS envelope_ids
