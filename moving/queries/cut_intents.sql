-- cut_intents: take what concerns some slots ($1) out of all payout intents; one that has nothing else is deleted.
-- Index: payout_batch's primary key. Lock: the rows that change; a payer that deletes one of them at the same time wins.
WITH named AS (
    SELECT p.batch_id, i.envelope_id, i.seq, i.n, i.envelope_id % 1000 = ANY($1::bigint[]) AS moved
    FROM payout_batch p CROSS JOIN LATERAL unnest(p.envelope_ids, p.seqs) WITH ORDINALITY AS i (envelope_id, seq, n)
), kept AS (
    SELECT batch_id, array_agg(envelope_id ORDER BY n) FILTER (WHERE NOT moved) AS ids,
        array_agg(seq ORDER BY n) FILTER (WHERE NOT moved) AS seqs
    FROM named GROUP BY batch_id HAVING bool_or(moved)
), gone AS (
    DELETE FROM payout_batch USING kept WHERE payout_batch.batch_id = kept.batch_id AND kept.ids IS NULL
)
UPDATE payout_batch SET envelope_ids = kept.ids, seqs = kept.seqs
FROM kept WHERE payout_batch.batch_id = kept.batch_id AND kept.ids IS NOT NULL
