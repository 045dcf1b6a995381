"""What clients write, read into typed values: one module for each kind of value.

What lives here: `terms` (the body of a create, and its fingerprint), `parameters` (the body of open and grab, share
token, Idempotency-Key), `paging` (lists), `instants`, `texts`, `calendar` (the business day of an ID). May import:
`gateway.http`, `gateway.identity.users`, `gateway.limits`, `envelope`, `sharding`, `runtime.clock`, `errors`.

Promise: what is returned is within `envelope.limits` and `gateway.limits`; any bytes at all give a value or `Refused`,
with a code of its own for each field (tests/unit/gateway/test_terms.py tries arbitrary bytes). The fingerprint of the
same terms is the same in all versions: it is stored beside the money, and a changed one would refuse the repeats of
older creates (`test_a_pinned_fingerprint`). How it fails: only as `Refused`, or as `gateway.http` does.
"""
