-- funds: who paid for some envelopes, how much, and for which header. $1 IDs. Index: fund_envelope. Lock: none.
SELECT envelope_id, user_account, total_fen, left_fen, header_hash, created_at FROM fund WHERE envelope_id = ANY($1::bigint[])
