-- read_log: the next entries for a sink, in the order of their transactions; one row without an entry if there is none.
-- $1 what it has seen (all transactions visible there are delivered); $2 up to where this span goes, NULL: what is visible
-- now; $3, $4 the last entry that was read of this span; $5 how many.
-- A snapshot is the cursor, not a number: a transaction that began earlier may commit later, and has to be found then,
-- while those that commit in between must not wait for it.
-- Index: event_log's primary key, from the oldest transaction that may not have been seen. Lock: none. Of two conditions
-- Postgres may begin at the lower one, and would walk through all that another sink waits for: so it is one condition.
SELECT span.upto::text AS upto, log.*
FROM (SELECT coalesce($2::text::pg_snapshot, pg_current_snapshot()) AS upto) AS span
LEFT JOIN LATERAL (
    SELECT xid::text AS xid, entry_id, what, at, written_at, envelope_ids, seqs, shares, kinds, user_ids, amounts_fen, notes
    FROM event_log
    WHERE (event_log.xid, entry_id) > (greatest($3::text::xid8, pg_snapshot_xmin($1::text::pg_snapshot)), $4::bigint)
        AND NOT pg_visible_in_snapshot(event_log.xid, $1::text::pg_snapshot)
        AND pg_visible_in_snapshot(event_log.xid, span.upto)
    ORDER BY event_log.xid, entry_id
    LIMIT $5
) AS log ON true
ORDER BY log.xid::xid8, log.entry_id
