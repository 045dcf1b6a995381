-- finish_payouts: delete intents whose orders are all final; write those that are stuck for an operator.
-- Index: the primary keys. Lock: the deleted rows.
WITH stuck AS (
    INSERT INTO payout_stuck (envelope_id, seq, reason, attempts, stuck_at)
    SELECT envelope_id, seq, reason, attempts, $6
    FROM unnest($2::bigint[], $3::integer[], $4::text[], $5::integer[]) AS s (envelope_id, seq, reason, attempts)
    ON CONFLICT (envelope_id, seq) DO NOTHING
)
DELETE FROM payout_batch WHERE batch_id = ANY($1::bigint[])
