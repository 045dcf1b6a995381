-- redrive_payouts: give stuck payouts back to the payers, under their old order numbers, as one new intent.
-- $1 envelope IDs, or NULL for all; $2 now; $3 orders of one intent, as many as one call to the wallet may hold.
-- Its time is when the payouts stuck, so that any server adopts it at its next read.
-- Index: payout_stuck's primary key. Lock: the deleted rows.
WITH freed AS (
    DELETE FROM payout_stuck WHERE $1::bigint[] IS NULL OR envelope_id = ANY($1::bigint[])
    RETURNING envelope_id, seq, stuck_at
), numbered AS (
    SELECT *, (row_number() OVER (ORDER BY envelope_id, seq) - 1) / $3 AS part FROM freed
), boxed AS (
    INSERT INTO payout_batch (created_at, server, envelope_ids, seqs)
    SELECT least(min(stuck_at), $2), 'operator', array_agg(envelope_id ORDER BY envelope_id, seq),
        array_agg(seq ORDER BY envelope_id, seq)
    FROM numbered GROUP BY part
)
SELECT count(*) FROM freed
