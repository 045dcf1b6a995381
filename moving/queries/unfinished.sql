-- unfinished: what keeps one database's envelopes of some days from being final: open ones, payouts that wait or are
-- stuck, entries of `due`. $1 and $2 bound the IDs, $3 are the slots, $4 how many of each. Index: the tables' keys. Lock: none.
(SELECT 'open' AS what, e.envelope_id FROM envelope e
 LEFT JOIN (
    SELECT envelope_id, count(*) AS entries, bool_or(kind <> 'open') AS closed FROM claim
    WHERE envelope_id >= $1 AND envelope_id < $2 AND slot = ANY($3::smallint[]) GROUP BY envelope_id
 ) c USING (envelope_id)
 WHERE e.envelope_id >= $1 AND e.envelope_id < $2 AND e.slot = ANY($3::smallint[])
    AND NOT coalesce(c.closed, false) AND coalesce(c.entries, 0) < e.shares LIMIT $4)
UNION ALL
(SELECT 'unpaid', i.envelope_id FROM payout_batch p CROSS JOIN LATERAL unnest(p.envelope_ids) AS i (envelope_id)
 WHERE i.envelope_id >= $1 AND i.envelope_id < $2 AND i.envelope_id % 1000 = ANY($3::smallint[]) LIMIT $4)
UNION ALL
(SELECT 'stuck', s.envelope_id FROM payout_stuck s
 WHERE s.envelope_id >= $1 AND s.envelope_id < $2 AND s.envelope_id % 1000 = ANY($3::smallint[]) LIMIT $4)
UNION ALL
(SELECT 'due', d.envelope_id FROM due d
 WHERE d.envelope_id >= $1 AND d.envelope_id < $2 AND d.envelope_id % 1000 = ANY($3::smallint[]) LIMIT $4)
