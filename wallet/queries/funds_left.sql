-- What is left of the funds of these envelopes: $1 envelope IDs. An envelope that is missing was never paid in for.
-- Index: fund_envelope. Lock: none.
SELECT envelope_id, left_fen FROM fund WHERE envelope_id = ANY ($1::bigint[])
