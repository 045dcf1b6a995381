-- read_claims: the claims ($1 envelopes, $2 seqs) of one day and a few slots, with the receiver of each.
-- $3 the slots, $4 and $5 the day's first and end ID, constants at planning. `n` is the position in $1, from 1.
-- Index: the unique keys of claim and envelope. Lock: none.
SELECT i.n, c.envelope_id, c.seq, c.kind, c.user_id, c.amount_fen,
    CASE WHEN c.user_id = '' THEN e.sender ELSE c.user_id END AS receiver
FROM unnest($1::bigint[], $2::integer[]) WITH ORDINALITY AS i (envelope_id, seq, n)
JOIN claim c ON c.envelope_id = i.envelope_id AND c.slot = i.envelope_id % 1000 AND c.seq = i.seq
    AND c.slot = ANY($3::smallint[]) AND c.envelope_id >= $4 AND c.envelope_id < $5
JOIN envelope e ON e.envelope_id = i.envelope_id AND e.slot = i.envelope_id % 1000
    AND e.slot = ANY($3::smallint[]) AND e.envelope_id >= $4 AND e.envelope_id < $5
