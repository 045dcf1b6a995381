-- forget_closed: drop from `due` the envelopes given, whose closing entries are durable.
-- Index: due's primary key. Lock: the deleted rows.
DELETE FROM due USING unnest($1::bigint[], $2::timestamptz[]) AS i (envelope_id, expires_at)
WHERE due.expires_at = i.expires_at AND due.envelope_id = i.envelope_id
