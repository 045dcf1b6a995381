-- escrows: those of a day and slot that do not hold what is left of the funds of that day and slot.
-- Scans fund and, by account_escrow, the escrows. Lock: none.
SELECT coalesce(a.name, f.name) AS name, coalesce(a.balance_fen, 0) AS balance_fen, coalesce(f.left_fen, 0)::bigint AS left_fen
FROM (SELECT name, balance_fen FROM account WHERE kind = 1) a
FULL JOIN (
    SELECT 'escrow:' || lpad((envelope_id / 10000000000000)::text, 6, '0') || ':'
        || lpad((envelope_id % 1000)::text, 3, '0') AS name, sum(left_fen) AS left_fen
    FROM fund GROUP BY 1
) f ON f.name = a.name
WHERE coalesce(a.balance_fen, 0) <> coalesce(f.left_fen, 0)
ORDER BY 1
