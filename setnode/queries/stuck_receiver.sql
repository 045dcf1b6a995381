-- stuck_receiver: whom a stuck order pays, and how much; no row without a claim.
-- $1 envelope ID, $2 its slot, $3 seq. Index: the unique keys of claim and envelope, of the one day that $1 and $2 name:
-- joined with the orders, all days of the SET would be planned, which takes minutes with a thousand slots. Lock: none.
SELECT c.amount_fen, CASE WHEN c.user_id = '' THEN e.sender ELSE c.user_id END AS receiver
FROM claim c LEFT JOIN envelope e ON e.envelope_id = $1 AND e.slot = $2
WHERE c.envelope_id = $1 AND c.slot = $2 AND c.seq = $3
