-- Money in escrow over all slots and days, for the metric.
-- Index: account_escrow (only escrows). Lock: none.
SELECT coalesce(sum(balance_fen), 0)::bigint FROM account WHERE kind = 1
