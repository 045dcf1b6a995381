-- calendar: by business date the databases in each state of the register, with their sums. $1 the first date.
-- Index: the register's primary key. Lock: none.
SELECT day, state, count(*) AS databases, sum(envelopes)::bigint AS envelopes, sum(paid_in_fen)::bigint AS paid_in_fen
FROM day_register WHERE day >= $1 GROUP BY day, state ORDER BY day, state
