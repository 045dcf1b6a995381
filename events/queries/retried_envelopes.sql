-- retried_envelopes: the envelopes of the sink $1 of which an event is retried apart: how many of its events are here, and the
-- first of them; `due`: whether its time has come. Those whose time comes first are first.
-- Index: event_retry_envelope, all of it; event_retry is empty as a rule, and has MAX_WAITING rows of a sink at most. Lock: none.
SELECT envelope_id, number, retry_id, next_at <= now() AS due
FROM (
    SELECT envelope_id, count(*) AS number, min(retry_id) AS retry_id
    FROM event_retry WHERE sink = $1 AND next_at IS NOT NULL GROUP BY envelope_id
) AS waiting JOIN event_retry AS first USING (envelope_id, retry_id)
ORDER BY next_at
