-- What a user received, sent and got back in a span of time: $1 account name, $2 from, $3 until (exclusive).
-- Meaning: received are claims, also those that were paid through a provider; sent is what creates took.
-- Index: account_name, transfer_statement alone: all the user's entries, about 0.4 µs each. Lock: none.
SELECT count(*) FILTER (WHERE kind = 2) AS received_count,
    coalesce(sum(amount_fen) FILTER (WHERE kind = 2), 0)::bigint AS received_fen,
    count(*) FILTER (WHERE kind = 1) AS sent_count,
    coalesce(sum(amount_fen) FILTER (WHERE kind = 1), 0)::bigint AS sent_fen,
    coalesce(sum(amount_fen) FILTER (WHERE kind = 3), 0)::bigint AS refunded_fen
FROM transfer
WHERE user_account = (SELECT account_id FROM account WHERE name = $1::varchar)
    AND created_at >= $2 AND created_at < $3
