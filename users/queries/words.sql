-- words: lines that operators or parts have written, in which a name stands. $1 the name. Scans small tables. Lock: none.
SELECT 'operation_log' AS place, entry_id::text AS entry, reason || ' ' || proof AS text FROM operation_log
WHERE strpos(reason || ' ' || who || ' ' || proof, $1) > 0
UNION ALL
SELECT 'move', move_id::text, note FROM move WHERE strpos(note, $1) > 0
UNION ALL
SELECT 'payout_stuck', envelope_id || '.' || seq, reason FROM payout_stuck WHERE strpos(reason, $1) > 0
UNION ALL
SELECT 'fund_set_apart', fund_id::text, reason FROM fund_set_apart WHERE strpos(reason, $1) > 0
