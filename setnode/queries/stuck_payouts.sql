-- stuck_payouts: the orders that need an operator, oldest first.
-- $1 how many. Index: none, the table is short. Lock: none.
SELECT envelope_id, seq, attempts, stuck_at, reason
FROM payout_stuck
ORDER BY stuck_at, envelope_id, seq LIMIT $1
