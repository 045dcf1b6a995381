-- archives: the days whose archive the register names. Index: none, the register is read whole. Lock: none.
SELECT day, xx, state, manifest_sha256 FROM day_register WHERE manifest_sha256 IS NOT NULL ORDER BY day, xx
