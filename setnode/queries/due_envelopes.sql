-- due_envelopes: envelopes whose time is up, oldest first. Index: due's primary key. Lock: none.
SELECT envelope_id, expires_at FROM due WHERE expires_at <= $1 ORDER BY expires_at, envelope_id LIMIT $2
