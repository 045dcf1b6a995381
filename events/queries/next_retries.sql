-- next_retries: the events of the sink $1 and the envelope $2 that are retried apart, or wait behind one, from $3 on, $4 at
-- most, in order. `due`: whether an event's time has come.
-- Index: event_retry_envelope. Lock: none.
SELECT retry_id, envelope_id, event_id, body, tries, next_at, next_at <= now() AS due
FROM event_retry WHERE sink = $1 AND envelope_id = $2 AND retry_id >= $3 AND next_at IS NOT NULL
ORDER BY retry_id LIMIT $4
