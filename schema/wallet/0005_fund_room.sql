-- Room for a second version of every row on a page of `fund`. Envelopes made together are paid together, so one batch
-- often changes left_fen of all rows of a page; at 70 a part of these changes needed a new entry in each index, and a
-- credit cost a tenth more. Pages that are there already keep what they have.
ALTER TABLE fund SET (fillfactor = 45);
