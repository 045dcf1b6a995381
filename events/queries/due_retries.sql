-- due_retries: of each envelope of the sink $1 the first event that is retried apart, if its time has come; $2 at most.
-- Index: none; event_retry is small, and empty as a rule. Lock: none.
SELECT retry_id, envelope_id, event_id, body, tries
FROM (
    SELECT DISTINCT ON (envelope_id) * FROM event_retry WHERE sink = $1 AND next_at IS NOT NULL
    ORDER BY envelope_id, retry_id
) AS first
WHERE next_at <= now() ORDER BY next_at LIMIT $2
