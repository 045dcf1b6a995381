-- Record the creates whose money a batch takes in: $1 create_key, $2 fingerprint, $3 user account, $4 total, $5 envelope,
--   each an array literal (runtime.literals).
-- Meaning: makes a create idempotent. In one transaction with its transfer; in order of arrival, so fund_id rises.
-- Index: fund_create_key, fund_envelope, fund_order (written). Lock: none beyond the new rows.
INSERT INTO fund (create_key, fingerprint, user_account, total_fen, envelope_id)
SELECT wanted.create_key, wanted.fingerprint, wanted.user_account, wanted.total_fen, wanted.envelope_id
FROM unnest(
    $1::text::varchar[], $2::text::varchar[], $3::text::bigint[], $4::text::bigint[], $5::text::bigint[])
    WITH ORDINALITY AS wanted (create_key, fingerprint, user_account, total_fen, envelope_id, place)
ORDER BY wanted.place
