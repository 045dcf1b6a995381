-- delete_intents: delete intents ($1) whose orders are all paid, and were no refunds. Index: the primary key. Lock: the rows.
DELETE FROM payout_batch WHERE batch_id = ANY($1::bigint[])
