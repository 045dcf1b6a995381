-- due_retries: of each envelope of the sink $1 the first event that is retried apart, if its time has come or it is one of
-- $3, which were woken; $2 at most. `due`: whether its time has come.
-- Index: none; event_retry is small, and empty as a rule. Lock: none.
SELECT retry_id, envelope_id, event_id, body, tries, next_at, next_at <= now() AS due
FROM (
    SELECT DISTINCT ON (envelope_id) * FROM event_retry WHERE sink = $1 AND next_at IS NOT NULL
    ORDER BY envelope_id, retry_id
) AS first
WHERE next_at <= now() OR retry_id = ANY($3::bigint[]) ORDER BY next_at LIMIT $2
