-- delete_copies: delete the intents of some slots ($1) that a move has brought. Lock: the deleted rows.
DELETE FROM payout_batch
WHERE server = 'move' AND EXISTS (SELECT FROM unnest(envelope_ids) AS e WHERE e % 1000 = ANY($1::bigint[]))
