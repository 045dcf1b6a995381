-- note_foreign_writes: in the transaction that writes envelopes for their owners, note which, and notify the owners.
-- $1 envelope IDs, $2 the notification (`setnode.commit.invalidation.payload`). Index: foreign_write's. Lock: none.
WITH noted AS (INSERT INTO foreign_write (envelope_id) SELECT unnest($1::bigint[]))
SELECT pg_notify('hongbao_foreign', $2)
