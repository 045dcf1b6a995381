-- Creates already paid in under these keys or for these envelope IDs: $1 create keys, $2 envelope IDs.
-- Index: fund_create_key, fund_envelope. Lock: none (the caller holds the ledger's).
SELECT create_key, fingerprint, envelope_id, left_fen, draft FROM fund WHERE create_key = ANY ($1::varchar[])
UNION
SELECT create_key, fingerprint, envelope_id, left_fen, draft FROM fund WHERE envelope_id = ANY ($2::bigint[])
