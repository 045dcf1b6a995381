-- foreign_rows: rows of one hot business day ($1, $2: its IDs) in the slots $3, which are another SET's on that day.
-- Index: the tables' keys. Lock: none.
SELECT slot / 10 AS xx, count(*) AS rows FROM (
    SELECT slot FROM envelope WHERE envelope_id >= $1 AND envelope_id < $2 AND slot = ANY($3::smallint[])
    UNION ALL
    SELECT slot FROM claim WHERE envelope_id >= $1 AND envelope_id < $2 AND slot = ANY($3::smallint[])
    UNION ALL
    SELECT slot FROM guest WHERE envelope_id >= $1 AND envelope_id < $2 AND slot = ANY($3::smallint[])
) AS found GROUP BY 1 ORDER BY 1
