-- stuck_payouts: the orders that need an operator, oldest first, with receiver and amount if the claim exists.
-- $1 how many. Index: the unique keys of claim and envelope. Lock: none.
SELECT s.envelope_id, s.seq, s.attempts, s.stuck_at, s.reason, c.amount_fen,
    CASE WHEN c.user_id = '' THEN e.sender ELSE c.user_id END AS receiver
FROM payout_stuck s
LEFT JOIN claim c ON c.envelope_id = s.envelope_id AND c.slot = s.envelope_id % 1000 AND c.seq = s.seq
LEFT JOIN envelope e ON e.envelope_id = s.envelope_id AND e.slot = s.envelope_id % 1000
ORDER BY s.stuck_at, s.envelope_id, s.seq LIMIT $1
