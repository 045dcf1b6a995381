-- unfinished: the envelopes of an account of whose money not all is paid out. $1 account. Index: transfer_sent,
-- fund_envelope. Lock: none.
SELECT f.envelope_id, f.left_fen FROM transfer t JOIN fund f ON f.envelope_id = t.envelope_id
WHERE t.user_account = $1 AND t.kind = 1 AND f.left_fen > 0 ORDER BY f.envelope_id
