"""An object store as a place for files (floor 2): one prefix of one bucket, spoken to by the S3 protocol.

What lives here: `address` (what `s3://bucket/prefix` names), `credentials` (who we are there, from the environment or
from files that it names), `bucket` (put, get, ranges, list, delete), `faults` (its answers in our words), `limits`.

May import: `runtime.settings`, `errors`. obstore is imported in `bucket` and `faults` alone, and only when needed.

Promise. An object is there whole or it is not there: a large file goes up in parts, and the store shows it when the
last part is in. `Bucket.create` never replaces anything (If-None-Match), `Bucket.replace` nothing but what was read
(If-Match). No secret is in an address, a log or an error. Everything blocks: callers run it in threads of their own.

How it fails. Refused, nothing changed: `bucket_address`, `bucket_credentials`, `bucket_missing`, `bucket_denied`,
`bucket_elsewhere`, `bucket_unfit`, `bucket_full`, `object_missing`, `object_exists`, `object_changed`,
`file_unreadable` (ours). Unavailable: `bucket_away`.
"""
