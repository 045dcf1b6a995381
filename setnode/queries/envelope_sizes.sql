-- envelope_sizes: the shares of envelopes of one day and a few slots, so that a large read is cut before it is made.
-- $1 to $4 as in load_envelopes. Index: envelope's unique key. Lock: none.
SELECT envelope_id, shares FROM envelope
WHERE envelope_id = ANY($1::bigint[]) AND slot = ANY($2::smallint[]) AND envelope_id >= $3 AND envelope_id < $4
