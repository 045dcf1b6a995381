-- read_cards: what lists show of envelopes of one day and a few slots; without those that the user may not see.
-- $1 IDs, $2 their slots, $3 and $4 the day's first and end ID, constants at planning as in load_envelopes; $5 user.
-- Meaning: may_see of envelope/decide.py for a user without the share token. Of equal shares the first is the luckiest.
--   A page has at most MAX_CARDS envelopes of 10,000 claims each; no row of a claim is sent, only their sums.
-- Index: the unique keys. Lock: none.
SELECT e.envelope_id, e.sender, e.kind, e.total_fen, e.shares, e.greeting,
    (extract(epoch FROM e.created_at) * 1000)::bigint AS created_at_ms,
    (extract(epoch FROM e.opens_at) * 1000)::bigint AS opens_at_ms,
    (extract(epoch FROM e.expires_at) * 1000)::bigint AS expires_at_ms,
    c.opens, c.claimed_fen, c.closed_by, c.closed_fen, c.holds, c.luckiest
FROM (
    SELECT * FROM envelope WHERE envelope_id = ANY($1::bigint[]) AND slot = ANY($2::smallint[])
        AND envelope_id >= $3::bigint AND envelope_id < $4::bigint
) e
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE kind = 'open') AS opens,
        coalesce(sum(amount_fen) FILTER (WHERE kind = 'open'), 0)::bigint AS claimed_fen,
        min(kind) FILTER (WHERE kind <> 'open') AS closed_by,
        min(amount_fen) FILTER (WHERE kind <> 'open') AS closed_fen,
        coalesce(bool_or(user_id = $5::varchar), false) AS holds,
        max((amount_fen << 20) - seq) FILTER (WHERE kind = 'open')
            = max((amount_fen << 20) - seq) FILTER (WHERE user_id = $5::varchar) AS luckiest
    FROM claim WHERE claim.envelope_id = e.envelope_id AND claim.slot = e.slot
        AND claim.slot = ANY($2::smallint[])
        AND claim.envelope_id >= $3::bigint AND claim.envelope_id < $4::bigint
) c
WHERE e.sender = $5::varchar OR c.holds OR e.named AND EXISTS (
    SELECT FROM guest WHERE guest.envelope_id = e.envelope_id AND guest.user_id = $5::varchar AND guest.slot = e.slot
        AND guest.slot = ANY($2::smallint[])
        AND guest.envelope_id >= $3::bigint AND guest.envelope_id < $4::bigint
        AND guest.invited
)
