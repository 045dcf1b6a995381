-- pick_payouts: payout intents that this process does not hold in memory, oldest first.
-- $1 this server, $2 rows older than this are adopted from any server, $3 batch IDs held, $4 how many,
-- $5 whether to read rows of this server of any age (after a start, or when memory overflowed), $6 only newer batches.
-- Index: payout_batch's primary key. Lock: none; two payers use the same order numbers, so the wallet pays once.
SELECT batch_id FROM payout_batch
WHERE batch_id > $6 AND batch_id <> ALL($3::bigint[]) AND (($5 AND server = $1) OR created_at < $2)
ORDER BY batch_id LIMIT $4
