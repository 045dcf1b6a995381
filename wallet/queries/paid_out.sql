-- Which of these envelopes have had any share paid or refunded: $1 envelope IDs.
-- Meaning: order numbers of payouts are "ID.SEQ"; "/" follows "." in the order of the index.
-- Index: transfer_order, one range for each envelope. Lock: none.
SELECT asked.envelope_id FROM unnest($1::bigint[]) AS asked (envelope_id)
WHERE EXISTS (
    SELECT FROM transfer
    WHERE transfer.order_no >= (asked.envelope_id || '.') COLLATE "C"
        AND transfer.order_no < (asked.envelope_id || '/') COLLATE "C"
)
