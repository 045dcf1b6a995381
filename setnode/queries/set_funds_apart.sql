-- set_funds_apart: keep funds that the sweeper has passed without a header; returns how many are kept in all.
-- $1 fund IDs, $2 envelope IDs, $3 senders, $4 totals, $5 reasons. Index: the primary key. Lock: the new rows.
WITH kept AS (
    INSERT INTO fund_set_apart (fund_id, envelope_id, sender, total_fen, reason)
    SELECT fund_id, envelope_id, left(sender, 64), total_fen, reason
    FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::text[])
        AS i (fund_id, envelope_id, sender, total_fen, reason)
    ON CONFLICT DO NOTHING
    RETURNING fund_id
)
SELECT (SELECT count(*) FROM fund_set_apart) + (SELECT count(*) FROM kept)
