-- stuck_fen: money that is claimed and stuck. Index: claim's primary key; payout_stuck is small. Lock: none.
SELECT coalesce(sum(c.amount_fen), 0)::bigint FROM payout_stuck s
JOIN claim c ON c.envelope_id = s.envelope_id AND c.slot = s.envelope_id % 1000 AND c.seq = s.seq
