-- finish_payouts: delete intents whose orders are all final; write those that are stuck for an operator. While somebody
-- receives events, note what is stuck and which refunds are paid.
-- $1 batch IDs; of the stuck: $2 envelopes, $3 seqs, $4 reasons, $5 attempts, $6 amounts, $7 receivers; of the refunds:
-- $8 envelopes, $9 seqs, $10 amounts, $11 receivers; $12 now.
-- Index: the primary keys. Lock: the deleted rows.
WITH stuck AS (
    INSERT INTO payout_stuck (envelope_id, seq, reason, attempts, amount_fen, stuck_at)
    SELECT envelope_id, seq, reason, attempts, amount_fen, $12
    FROM unnest($2::bigint[], $3::integer[], $4::text[], $5::integer[], $6::bigint[])
        AS s (envelope_id, seq, reason, attempts, amount_fen)
    ON CONFLICT (envelope_id, seq) DO NOTHING
), told AS (
    INSERT INTO event_log (what, at, envelope_ids, seqs, user_ids, amounts_fen, notes)
    SELECT * FROM (
        SELECT 'refunds', $12::timestamptz, $8::bigint[], $9::integer[], $11::text[], $10::bigint[], NULL::text[]
        WHERE cardinality($8::bigint[]) > 0
        UNION ALL
        SELECT 'stuck', $12, $2, $3, $7::text[], $6,
            array(SELECT json_build_object('reason', reason, 'attempts', attempts)::text
                FROM unnest($4, $5) AS s (reason, attempts))
        WHERE cardinality($2::bigint[]) > 0
    ) AS facts
    WHERE EXISTS (SELECT FROM event_sink WHERE expires_at IS NULL OR expires_at > now())
)
DELETE FROM payout_batch WHERE batch_id = ANY($1::bigint[])
