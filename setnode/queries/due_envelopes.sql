-- due_envelopes: envelopes whose time is up, oldest first, after the last row ($3, $4) of the page before.
-- Index: due's primary key. Lock: none.
SELECT envelope_id, expires_at FROM due WHERE expires_at <= $1 AND (expires_at, envelope_id) > ($3, $4)
ORDER BY expires_at, envelope_id LIMIT $2
