-- served: the newest instant, $1 seconds ago or earlier, at which the SET wrote an entry or a header; no row if no envelope
-- is past its end for twice as long, because then none is overdue.
-- Index: due's primary key; then scans envelope and claim. Lock: none.
SELECT (extract(epoch FROM greatest(
    (SELECT max(claimed_at) FROM claim
        WHERE claimed_at <= now() - make_interval(secs => $1) AND isfinite(claimed_at)),
    (SELECT max(created_at) FROM envelope
        WHERE created_at <= now() - make_interval(secs => $1) AND isfinite(created_at))
)) * 1000)::bigint AS at_ms
WHERE EXISTS (SELECT FROM due WHERE expires_at < now() - 2 * make_interval(secs => $1))
