-- finish_payouts: delete intents whose orders are all final; write those that are stuck for an operator.
-- $1 batch IDs; of the stuck: $2 envelopes, $3 seqs, $4 reasons, $5 attempts, $6 amounts; $7 now.
-- Index: the primary keys. Lock: the deleted rows.
WITH stuck AS (
    INSERT INTO payout_stuck (envelope_id, seq, reason, attempts, amount_fen, stuck_at)
    SELECT envelope_id, seq, reason, attempts, amount_fen, $7
    FROM unnest($2::bigint[], $3::integer[], $4::text[], $5::integer[], $6::bigint[])
        AS s (envelope_id, seq, reason, attempts, amount_fen)
    ON CONFLICT (envelope_id, seq) DO NOTHING
)
DELETE FROM payout_batch WHERE batch_id = ANY($1::bigint[])
