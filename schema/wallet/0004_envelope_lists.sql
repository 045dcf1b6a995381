-- The list of envelopes that a user sent is read by an index of their creates alone: a user with a million receipts had
-- all of them read and filtered out, until the read's timeout. Writes to `transfer` wait while the index is built.
CREATE INDEX transfer_sent ON transfer (user_account, transfer_id) WHERE kind = 1;
