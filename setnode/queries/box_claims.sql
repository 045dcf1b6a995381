-- box_claims: the payout intent of claims that COPY has just written in the same transaction.
-- $5 as $9 of append_claims. Index: payout_batch's primary key. Lock: none but that of the new row.
INSERT INTO payout_batch (created_at, server, envelope_ids, seqs) VALUES ($1, $2, $3, $4)
RETURNING batch_id, CASE WHEN $5 <> '' THEN pg_notify('hongbao_foreign', $5) END AS notified
