-- accounts: those whose balance is not the sum of their transfers, or is below zero (but `outside`). Scans transfer
-- twice.
SELECT coalesce(a.name, 'account ' || s.account_id) AS name, coalesce(a.balance_fen, 0) AS balance_fen,
    coalesce(s.sum_fen, 0)::bigint AS sum_fen, a.account_id IS NULL AS unknown
FROM account a
FULL JOIN (
    SELECT account_id, sum(fen) AS sum_fen FROM (
        SELECT credit_account AS account_id, amount_fen AS fen FROM transfer
        UNION ALL
        SELECT debit_account, -amount_fen FROM transfer
    ) postings GROUP BY account_id
) s USING (account_id)
WHERE a.account_id IS NULL OR a.balance_fen <> coalesce(s.sum_fen, 0) OR (a.kind <> 2 AND a.balance_fen < 0)
ORDER BY name
